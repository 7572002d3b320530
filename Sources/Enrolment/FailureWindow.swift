/// Guesses of the last while that were not right, by user and by address: who has too many must wait
/// (`enrolment_failures`).
///
/// A guess counts from its beginning on, so that no more get through at once than one by one; what was right is forgiven.
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

    /// Where both are said for one file of passwords: fewer, and longer.
    package func stricter(_ other: Limit) -> Limit {
      Limit(count: min(count, other.count), time: max(time, other.time))
    }
  }

  package enum Key: Sendable, Hashable {
    case user([UInt8])
    case address(String)
  }

  private var failures: [Key: [Int64]] = [:]
  /// What the most demanding of the locations needs to know: another one shortens no history.
  private var needed = Limit(count: 1, time: 1)
  /// So many are remembered always. When they are `spare` more, the oldest go all at once: no guess pays for looking
  /// through all of them.
  package static let keyLimit = 1 << 16
  package static let spare = keyLimit / 16
  /// How often all of them were looked through: for tests.
  package private(set) var sweeps = 0

  package init() {}

  /// Seconds to wait, and then nothing is counted; nil: the guess may be judged, and counts.
  package mutating func begin(_ keys: [Key], _ limit: Limit, at now: Int64) -> Int64? {
    if let wait = wait(keys, limit, at: now) { return wait }
    needed = Limit(count: max(needed.count, limit.count), time: max(needed.time, limit.time))
    for key in keys {
      if failures.count >= Self.keyLimit + Self.spare, failures[key] == nil { makeRoom(at: now) }
      failures[key] = Array(((failures[key] ?? []) + [now]).suffix(needed.count))
    }
    return nil
  }

  /// The guess that began then was right, or could not be judged.
  package mutating func forgive(_ keys: [Key], at then: Int64) {
    for key in keys {
      guard let place = failures[key]?.lastIndex(of: then) else { continue }
      failures[key]?.remove(at: place)
      if failures[key]?.isEmpty == true { failures[key] = nil }
    }
  }

  /// nil when none of these has too many.
  private func wait(_ keys: [Key], _ limit: Limit, at now: Int64) -> Int64? {
    let waits = keys.compactMap { key -> Int64? in
      let recent = (failures[key] ?? []).filter { $0 > now - limit.time }
      guard recent.count >= limit.count, let first = recent.suffix(limit.count).first else { return nil }
      return max(1, first + limit.time - now)
    }
    return waits.max()
  }

  private mutating func makeRoom(at now: Int64) {
    sweeps &+= 1
    failures = failures.filter { ($0.value.last ?? .min) > now - needed.time }
    guard failures.count > Self.keyLimit else { return }
    let oldest = failures.map { (key: $0.key, last: $0.value.last ?? .min) }.sorted { $0.last < $1.last }
    for entry in oldest.prefix(failures.count - Self.keyLimit) { failures[entry.key] = nil }
  }
}
