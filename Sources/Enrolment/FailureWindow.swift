/// Wrong passwords of the last while, by user and by address: who has too many must wait (`enrolment_failures`).
///
/// A value without a clock of its own. Bounded: what is oldest is forgotten, which takes more addresses than one attacker has.
package struct FailureWindow: Sendable {
  package struct Limit: Sendable, Hashable {
    /// From which on it is too many.
    package let count: Int
    /// Seconds.
    package let time: Int64

    package init(count: Int, time: Int64) {
      self.count = count
      self.time = time
    }
  }

  package enum Key: Sendable, Hashable {
    case user([UInt8])
    case address(String)
  }

  private var failures: [Key: [Int64]] = [:]
  private static let keyLimit = 1 << 16

  package init() {}

  /// Seconds to wait; nil when none of these has too many.
  package func wait(_ keys: [Key], _ limit: Limit, at now: Int64) -> Int64? {
    let waits = keys.compactMap { key -> Int64? in
      let recent = (failures[key] ?? []).filter { $0 > now - limit.time }
      guard recent.count >= limit.count, let first = recent.suffix(limit.count).first else { return nil }
      return max(1, first + limit.time - now)
    }
    return waits.max()
  }

  package mutating func count(_ keys: [Key], _ limit: Limit, at now: Int64) {
    for key in keys {
      if failures.count >= Self.keyLimit, failures[key] == nil { makeRoom(limit, at: now) }
      failures[key] = Array(((failures[key] ?? []) + [now]).suffix(limit.count))
    }
  }

  private mutating func makeRoom(_ limit: Limit, at now: Int64) {
    failures = failures.filter { ($0.value.last ?? .min) > now - limit.time }
    guard failures.count >= Self.keyLimit else { return }
    if let oldest = failures.min(by: { ($0.value.last ?? .min) < ($1.value.last ?? .min) }) {
      failures[oldest.key] = nil
    }
  }
}
