/// What was refused within the last ten minutes, and about what names most of it was. Pure: the caller brings the time, in
/// seconds of a monotonic clock, and how many passed since the start of the process.
///
/// Strangers choose the names, so only a few are kept: those that are frequent stay, whatever else comes (Misra and Gries,
/// "Finding repeated elements", 1982).
package struct RecentRefusals: Sendable {
  /// What is known of the last ten minutes, or of the shorter time since the first refusal in them.
  package struct Summary: Sendable, Equatable {
    package let refused: UInt64
    package let passed: UInt64
    /// The name that came most often; nil if none is frequent.
    package let name: String?
    /// How many of `refused` had this name, at least.
    package let named: UInt64

    /// Percent of all; rounded down.
    package var share: UInt64 {
      let (all, overflow) = refused.addingReportingOverflow(passed)
      guard !overflow, all > 0, refused <= .max / 100 else { return 100 }
      return refused * 100 / all
    }

    /// `312 of 800 requests (39 %)`
    package func words(_ things: String) -> String { "\(refused) of \(refused &+ passed) \(things) (\(share) %)" }
  }

  private struct Half: Sendable {
    let begin: Int64
    /// How many had passed before.
    let passed: UInt64
    var count: UInt64 = 0
    var names: [String: UInt64] = [:]

    mutating func note(_ name: String) {
      count &+= 1
      if names[name] != nil || names.count < RecentRefusals.most { return names[name, default: 0] &+= 1 }
      names = names.mapValues { $0 - 1 }.filter { $0.value > 0 }
    }
  }

  /// Seconds.
  private static let half: Int64 = 300
  /// The names of one half.
  private static let most = 16

  private var halves: [Half] = []

  package init() {}

  private static func isRecent(_ one: Half, at now: Int64) -> Bool { one.begin <= now && now - one.begin < 2 * half }

  package mutating func note(_ name: String, passed: UInt64, at now: Int64) {
    // A clock that was set back begins anew.
    halves.removeAll { !Self.isRecent($0, at: now) }
    if halves.last.map({ now - $0.begin >= Self.half }) ?? true { halves.append(Half(begin: now, passed: passed)) }
    halves[halves.count - 1].note(name)
  }

  /// nil: nothing was refused.
  package func summary(passed: UInt64, at now: Int64) -> Summary? {
    let halves = halves.filter { Self.isRecent($0, at: now) }
    guard let first = halves.first else { return nil }
    let names = halves.reduce(into: [:]) { names, half in names.merge(half.names) { $0 &+ $1 } }
    let top = names.max { ($0.value, $1.key) < ($1.value, $0.key) }
    return Summary(
      refused: halves.reduce(0) { $0 &+ $1.count }, passed: passed >= first.passed ? passed - first.passed : passed,
      name: top?.key, named: top?.value ?? 0)
  }
}
