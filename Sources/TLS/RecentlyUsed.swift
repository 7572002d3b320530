import Bytes

/// A bounded table that drops what was not used for longest, and what was not used for a while.
///
/// A value without a clock: the caller passes the time in milliseconds of one monotonic clock.
struct RecentlyUsed<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  private struct Entry: Sendable {
    let value: Value
    let validUntil: UInt64
    var usedAt: UInt64
  }

  private let limit: Int
  /// Milliseconds without use after which an entry is dropped.
  private let inactive: UInt64
  private var entries = LRUTable<Key, Entry>()

  init(limit: Int, inactive: UInt64) {
    self.limit = max(1, limit)
    self.inactive = inactive
  }

  var count: Int { entries.count }

  /// Returns the value while it is valid, and counts as a use of it.
  mutating func valid(_ key: Key, at now: UInt64) -> Value? {
    guard let (value, validUntil) = find(key, at: now), validUntil > now else { return nil }
    return value
  }

  /// Returns the value even if it is no longer valid, with the end of its validity, and counts as a use of it.
  mutating func find(_ key: Key, at now: UInt64) -> (value: Value, validUntil: UInt64)? {
    dropInactive(at: now)
    guard let place = entries.place(of: key) else { return nil }
    entries[place]?.usedAt = now
    entries.use(place)
    return entries[place].map { ($0.value, $0.validUntil) }
  }

  mutating func keep(_ value: Value, for key: Key, at now: UInt64, until validUntil: UInt64) {
    dropInactive(at: now)
    // The former value goes first, also as one that counts for the limit.
    entries.remove(key)
    _ = entries.makeRoom(limit: limit)
    entries.insert(Entry(value: value, validUntil: validUntil, usedAt: now), for: key)
  }

  mutating func remove(_ key: Key) { entries.remove(key) }

  private mutating func dropInactive(at now: UInt64) {
    // The oldest is first to become inactive, because each use makes an entry the newest.
    while let oldest = entries.oldest, let entry = entries[oldest], now >= entry.usedAt,
      now - entry.usedAt >= inactive
    {
      entries.remove(oldest)
    }
  }
}
