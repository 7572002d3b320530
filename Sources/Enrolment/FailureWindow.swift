/// Counts recent wrong passwords by user and by address. After too many, the client must wait (`enrolment_failures`).
///
/// An attempt counts from its start, so that parallel attempts get no more tries than sequential ones. A successful
/// attempt is removed again. This is a value without a clock of its own. Its times are those of the monotonic clock: a step
/// of the wall clock must not lock out who knows the password, nor forget failures. It is bounded and forgets the oldest entries;
/// to use that, an attacker would need more addresses than a single attacker has.
package struct FailureWindow: Sendable {
  package struct Limit: Sendable, Hashable {
    /// The number of failures from which on the client must wait.
    package let count: Int
    /// Seconds.
    package let time: Int64

    package init(count: Int, time: Int64) {
      self.count = count
      self.time = time
    }

    /// Returns the limit for a password file with two limits: the smaller count and the longer time.
    package func stricter(_ other: Limit) -> Limit {
      Limit(count: min(count, other.count), time: max(time, other.time))
    }
  }

  package enum Key: Sendable, Hashable {
    case user([UInt8])
    case address(String)
  }

  private var failures: [Key: [Int64]] = [:]
  /// The largest count and time of all limits, so that one location's limit does not shorten the history of another.
  private var needed = Limit(count: 1, time: 1)
  /// At least this many keys are kept. When there are `spare` more, the oldest are removed all at once, so that few
  /// attempts pay for a search through all of them.
  package static let keyLimit = 1 << 16
  package static let spare = keyLimit / 16
  /// How often all keys were searched, for tests.
  package private(set) var sweeps = 0

  package init() {}

  /// Starts an attempt. Returns the seconds to wait, and then counts nothing; nil when the attempt may proceed, and
  /// counts.
  package mutating func begin(_ keys: [Key], _ limit: Limit, at now: Int64) -> Int64? {
    if let wait = wait(keys, limit, at: now) { return wait }
    needed = Limit(count: max(needed.count, limit.count), time: max(needed.time, limit.time))
    for key in keys {
      if failures.count >= Self.keyLimit + Self.spare, failures[key] == nil { makeRoom(at: now) }
      failures[key] = Array(((failures[key] ?? []) + [now]).suffix(needed.count))
    }
    return nil
  }

  /// Removes the attempt that started at `then`: it succeeded, or could not be checked.
  package mutating func forgive(_ keys: [Key], at then: Int64) {
    for key in keys {
      guard let place = failures[key]?.lastIndex(of: then) else { continue }
      failures[key]?.remove(at: place)
      if failures[key]?.isEmpty == true { failures[key] = nil }
    }
  }

  /// Returns the seconds to wait; nil when no key has too many failures.
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
