/// The buckets of the histograms of times, in milliseconds: Prometheus' own default bounds.
public enum TimeBuckets {
  /// The upper bounds, which belong to their buckets. One more bucket has what is above.
  public static let bounds: [UInt64] = [5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000]
  public static let count = 12

  /// The bucket of a time. Comparisons without branches: every request asks.
  @inlinable
  @inline(__always)
  public static func place(of time: UInt64) -> Int {
    var place = time > 5 ? 1 : 0
    place &+= time > 10 ? 1 : 0
    place &+= time > 25 ? 1 : 0
    place &+= time > 50 ? 1 : 0
    place &+= time > 100 ? 1 : 0
    place &+= time > 250 ? 1 : 0
    place &+= time > 500 ? 1 : 0
    place &+= time > 1000 ? 1 : 0
    place &+= time > 2500 ? 1 : 0
    place &+= time > 5000 ? 1 : 0
    place &+= time > 10_000 ? 1 : 0
    return place
  }
}

/// The buckets of the histogram of sessions, which can last for days, in milliseconds.
public enum SessionBuckets {
  /// As `TimeBuckets.bounds`: 10 ms to one day.
  public static let bounds: [UInt64] = [10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 21_600_000, 86_400_000]
  public static let count = 10

  /// The bucket of a time.
  public static func place(of time: UInt64) -> Int { bounds.firstIndex { time <= $0 } ?? bounds.count }
}

/// A histogram of times in milliseconds, as read.
public struct TimeHistogram: Sendable {
  /// The upper bounds of all buckets but the last.
  public let bounds: [UInt64]
  /// Not cumulative.
  public var buckets: [UInt64]
  public var sum: UInt64 = 0

  public init(bounds: [UInt64] = TimeBuckets.bounds) {
    self.bounds = bounds
    buckets = [UInt64](repeating: 0, count: bounds.count + 1)
  }

  public var count: UInt64 { buckets.reduce(0, &+) }

  /// The bound in milliseconds under which this share of the times lies; nil without times, or above the last bound.
  public func bound(of share: Double) -> UInt64? {
    let all = count
    guard all > 0 else { return nil }
    var seen: UInt64 = 0
    for (place, bound) in bounds.enumerated() {
      seen &+= buckets[place]
      if Double(seen) >= Double(all) * share { return bound }
    }
    return nil
  }
}
