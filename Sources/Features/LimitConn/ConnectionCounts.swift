import Traffic

/// The exchanges in progress of one `limit_conn_zone`, by key, within the zone's size.
struct ConnectionCounts {
  enum Answer: Equatable {
    /// Counted: `release` must follow.
    case counted
    case refused
    /// No count fits into the zone.
    case full
  }

  let size: Int
  private var counts: [[UInt8]: Int] = [:]
  private(set) var usedBytes = 0

  /// `size`: of the zone, in bytes.
  init(size: Int) { self.size = size }

  var count: Int { counts.count }

  /// The memory of a count: the key's object and its place in the dictionary, with what the dictionary keeps spare.
  static func bytes(ofKey count: Int) -> Int { 128 + (count + 15) / 16 * 16 }

  /// `limit`: how many exchanges of this key may be in progress.
  mutating func take(_ key: [UInt8], limit: Int) -> Answer {
    if let count = counts[key] {
      guard count < limit else { return .refused }
      counts[key] = count + 1
      return .counted
    }
    let cost = Self.bytes(ofKey: key.count)
    guard cost <= size - usedBytes else { return .full }
    usedBytes += cost
    counts[key] = 1
    return .counted
  }

  /// Ends an exchange that was counted. The last one of a key frees the count's memory.
  mutating func release(_ key: [UInt8]) {
    guard let count = counts[key] else { return }
    if count > 1 {
      counts[key] = count - 1
    } else {
      counts[key] = nil
      usedBytes -= Self.bytes(ofKey: key.count)
    }
  }
}
