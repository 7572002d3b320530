import HTTP
import Observability
import Transport
import Upstream

/// What one worker counts of the requests to one server block. The worker's loop writes, any thread reads.
final class RequestMeter: Sendable {
  /// The first digit of the status; `none` for a client that got no response.
  static let classes = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"]

  private static let firstBucket = 6
  private static let sum = firstBucket + TimeBuckets.count
  private static let received = sum + 1
  private static let sent = sum + 2

  private let row = CountRow(RequestMeter.sum + 3)

  /// `time`: milliseconds; nil for a tunnel, whose duration says nothing about the server.
  @inline(__always)
  func count(status: Int, time: UInt64?, received: UInt64, sent: UInt64) {
    row.add(at: min(max(status / 100, 0), 5))
    if let time {
      row.add(at: Self.firstBucket + TimeBuckets.place(of: time))
      row.add(time, at: Self.sum)
    }
    row.add(received, at: Self.received)
    row.add(sent, at: Self.sent)
  }

  func add(to totals: inout RequestTotals) {
    for place in Self.classes.indices { totals.classes[place] &+= row.value(at: place) }
    for place in 0..<TimeBuckets.count { totals.times.buckets[place] &+= row.value(at: Self.firstBucket + place) }
    totals.times.sum &+= row.value(at: Self.sum)
    totals.received &+= row.value(at: Self.received)
    totals.sent &+= row.value(at: Self.sent)
  }
}

/// The counts of one server block, over all workers.
struct RequestTotals {
  /// In the order of `RequestMeter.classes`.
  var classes = [UInt64](repeating: 0, count: RequestMeter.classes.count)
  var times = TimeHistogram()
  var received: UInt64 = 0
  var sent: UInt64 = 0

  var all: UInt64 { classes.reduce(0, &+) }
}

/// The end of an exchange, for the counts.
enum RequestCount {
  /// Subrequests are no requests of a client.
  @inline(__always)
  static func end(_ exchange: Exchange, _ stream: Unmanaged<ClientStream>) {
    guard stream._withUnsafeGuaranteedRef({ $0.role }) != .session else { return endSession(exchange, stream) }
    exchange.worker.traffic.didEndExchange()
    guard let meter = exchange.server.meter else { return }
    stream._withUnsafeGuaranteedRef { stream in
      if stream.isSubrequest { return }
      let status = exchange.progress.status
      let isTunnel = status == 101 || exchange.head.isExtendedConnect
      meter.count(
        status: status, time: isTunnel ? nil : exchange.worker.loop.now &- exchange.account.startedAt,
        received: UInt64(exchange.head.byteCount) &+ exchange.body.received,
        sent: stream.sentBytes &- exchange.account.sentBytesAtStart)
    }
  }

  @inline(never)
  private static func endSession(_ exchange: Exchange, _ stream: Unmanaged<ClientStream>) {
    stream._withUnsafeGuaranteedRef { stream in
      guard let session = stream.session.tcp?.stream else { return }
      session.countBytes()
      session.count.end(
        stream.sessionResult ?? .stopped, after: exchange.worker.loop.now &- exchange.account.startedAt)
    }
  }
}
