import HTTP
package import Observability
import Transport
import Upstream

/// What one worker counts of the requests to one server block. The worker's loop writes, any thread reads.
package final class RequestMeter: Sendable {
  /// The first digit of the status; `none` for a client that got no response; `limited` for a 5xx by which a limit
  /// refused the request, which is no server's error.
  package static let classes = ["none", "1xx", "2xx", "3xx", "4xx", "5xx", "limited"]
  private static let limited = 0, none = 1
  private static let firstCode = none + 1
  private static let firstBucket = firstCode + StatusPlaces.count
  private static let sum = firstBucket + TimeBuckets.count
  private static let received = sum + 1
  private static let sent = sum + 2

  private let row = CountRow(RequestMeter.sum + 3)
  private let places = StatusPlaces.shared

  /// `time`: milliseconds; nil for a tunnel, whose duration says nothing about the server. `limit`: the status by which a
  /// limit refused the request; 0: none did.
  @inline(__always)
  package func count(status: Int, limit: Int, time: UInt64?, received: UInt64, sent: UInt64) {
    row.add(at: status < 100 ? Self.none : Self.firstCode + places.place(of: status))
    if limit != 0, status == limit, status >= 500 { row.add(at: Self.limited) }
    if let time {
      row.add(at: Self.firstBucket + TimeBuckets.place(of: time))
      row.add(time, at: Self.sum)
    }
    row.add(received, at: Self.received)
    row.add(sent, at: Self.sent)
  }

  /// Requests that have ended.
  package var all: UInt64 { (Self.none..<Self.firstBucket).reduce(0) { $0 &+ row.value(at: $1) } }
  package var serverErrors: UInt64 { classCounts.classes[5] }

  /// By `classes`, and by place of `StatusPlaces`.
  private var classCounts: (classes: [UInt64], codes: [UInt64]) {
    // First, because the status is counted before: so no class is less than what limits have of it.
    let limited = row.value(at: Self.limited)
    let codes = (0..<StatusPlaces.count).map { row.value(at: Self.firstCode + $0) }
    var sums = StatusPlaces.byClass(codes)
    sums[4] = sums[4] >= limited ? sums[4] - limited : 0
    return ([row.value(at: Self.none)] + sums + [limited], codes)
  }

  package func add(to totals: inout RequestTotals) {
    let counts = classCounts
    for (place, count) in counts.classes.enumerated() { totals.classes[place] &+= count }
    for (place, count) in counts.codes.enumerated() { totals.codes[place] &+= count }
    for place in 0..<TimeBuckets.count { totals.times.buckets[place] &+= row.value(at: Self.firstBucket + place) }
    totals.times.sum &+= row.value(at: Self.sum)
    totals.received &+= row.value(at: Self.received)
    totals.sent &+= row.value(at: Self.sent)
  }
}

/// The counts of one server block, over all workers.
package struct RequestTotals {
  /// In the order of `RequestMeter.classes`.
  package var classes = [UInt64](repeating: 0, count: RequestMeter.classes.count)
  /// By place (`StatusPlaces`); those of limits are among them.
  package var codes = [UInt64](repeating: 0, count: StatusPlaces.count)
  package var times = TimeHistogram()
  package var received: UInt64 = 0
  package var sent: UInt64 = 0

  package init() {}

  package var all: UInt64 { classes.reduce(0, &+) }
  /// Responses of 5xx that no limit has made.
  package var serverErrors: UInt64 { classes[5] }
  /// What a limit refused by a 5xx.
  package var limited: UInt64 { classes[6] }
}
