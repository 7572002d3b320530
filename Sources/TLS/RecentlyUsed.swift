/// A bounded table that drops what was not used for longest. Each operation takes constant time.
///
/// A value without a clock: the caller passes the time in milliseconds of one monotonic clock.
struct RecentlyUsed<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  private struct Entry: Sendable {
    var key: Key
    /// nil: the slot is free.
    var value: Value?
    var validUntil: UInt64
    var usedAt: UInt64
    var newer: Int?
    var older: Int?
  }

  private let limit: Int
  /// Milliseconds without use after which an entry is dropped.
  private let inactive: UInt64
  private var entries: [Entry] = []
  private var places: [Key: Int] = [:]
  private var free: [Int] = []
  private var newest: Int?
  private var oldest: Int?

  init(limit: Int, inactive: UInt64) {
    self.limit = max(1, limit)
    self.inactive = inactive
  }

  var count: Int { places.count }

  /// Returns the value while it is valid, and counts as a use of it.
  mutating func valid(_ key: Key, at now: UInt64) -> Value? {
    guard let (value, validUntil) = find(key, at: now), validUntil > now else { return nil }
    return value
  }

  /// Returns the value even if it is no longer valid, with the end of its validity, and counts as a use of it.
  mutating func find(_ key: Key, at now: UInt64) -> (value: Value, validUntil: UInt64)? {
    dropInactive(at: now)
    guard let place = places[key], let value = entries[place].value else { return nil }
    entries[place].usedAt = now
    unlink(place)
    linkAsNewest(place)
    return (value, entries[place].validUntil)
  }

  mutating func keep(_ value: Value, for key: Key, at now: UInt64, until validUntil: UInt64) {
    dropInactive(at: now)
    if let place = places[key] { drop(place) }
    if places.count >= limit, let oldest { drop(oldest) }
    let entry = Entry(key: key, value: value, validUntil: validUntil, usedAt: now, newer: nil, older: nil)
    let place: Int
    if let spare = free.popLast() {
      entries[spare] = entry
      place = spare
    } else {
      entries.append(entry)
      place = entries.count - 1
    }
    places[key] = place
    linkAsNewest(place)
  }

  mutating func remove(_ key: Key) { if let place = places[key] { drop(place) } }

  private mutating func dropInactive(at now: UInt64) {
    // The oldest is first to become inactive, because each use makes an entry the newest.
    while let oldest, now >= entries[oldest].usedAt, now - entries[oldest].usedAt >= inactive { drop(oldest) }
  }

  private mutating func drop(_ place: Int) {
    unlink(place)
    places[entries[place].key] = nil
    // Frees the value, which may be a private key.
    entries[place].value = nil
    free.append(place)
  }

  private mutating func unlink(_ place: Int) {
    let (newer, older) = (entries[place].newer, entries[place].older)
    if let newer { entries[newer].older = older } else if newest == place { newest = older }
    if let older { entries[older].newer = newer } else if oldest == place { oldest = newer }
    entries[place].newer = nil
    entries[place].older = nil
  }

  private mutating func linkAsNewest(_ place: Int) {
    entries[place].older = newest
    if let newest { entries[newest].newer = place }
    newest = place
    if oldest == nil { oldest = place }
  }
}
