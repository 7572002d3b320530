package import Observability
import Transport

/// What one worker counts of the sessions of one server block of `stream`. The worker's loop writes, any thread reads.
package final class SessionMeter: Sendable {
  private static let firstBucket = SessionResult.allCases.count
  private static let sum = firstBucket + SessionBuckets.count
  private static let open = sum + 1
  private static let received = sum + 2
  private static let sent = sum + 3
  private static let places = Dictionary(SessionResult.allCases.enumerated().map { ($1, $0) }) { first, _ in first }

  private let row = CountRow(SessionMeter.sum + 4)

  func didBegin() { row.add(at: Self.open) }

  /// The session goes on at another server block, which counts it from now on.
  func didLeave() { row.set(row.value(at: Self.open) &- 1, at: Self.open) }

  /// `time`: milliseconds.
  package func didEnd(_ result: SessionResult, after time: UInt64) {
    didLeave()
    if let place = Self.places[result] { row.add(at: place) }
    row.add(at: Self.firstBucket + SessionBuckets.place(of: time))
    row.add(time, at: Self.sum)
  }

  package func count(received: UInt64, sent: UInt64) {
    row.add(received, at: Self.received)
    row.add(sent, at: Self.sent)
  }

  /// Sessions that have ended.
  package var ended: UInt64 { SessionResult.allCases.indices.reduce(0) { $0 &+ row.value(at: $1) } }

  package func add(to totals: inout SessionTotals) {
    for place in SessionResult.allCases.indices { totals.results[place] &+= row.value(at: place) }
    for place in 0..<SessionBuckets.count { totals.times.buckets[place] &+= row.value(at: Self.firstBucket + place) }
    totals.times.sum &+= row.value(at: Self.sum)
    totals.open &+= row.value(at: Self.open)
    totals.received &+= row.value(at: Self.received)
    totals.sent &+= row.value(at: Self.sent)
  }
}

/// The counts of one server block of `stream`, over all workers.
package struct SessionTotals {
  /// In the order of `SessionResult`.
  package var results = [UInt64](repeating: 0, count: SessionResult.allCases.count)
  package var times = TimeHistogram(bounds: SessionBuckets.bounds)
  package var open: UInt64 = 0
  package var received: UInt64 = 0
  package var sent: UInt64 = 0

  package init() {}

  /// Those that have ended.
  package var ended: UInt64 { results.reduce(0, &+) }
  package var refused: UInt64 { sum { $0.isRefusal } }
  package var failed: UInt64 { sum { $0.isFailure } }

  private func sum(_ counts: (SessionResult) -> Bool) -> UInt64 {
    zip(SessionResult.allCases, results).reduce(0) { counts($1.0) ? $0 &+ $1.1 : $0 }
  }
}

/// The part of a session in the counts: which server block counts it, and how many of its bytes are counted.
///
/// The bytes of a session that lasts are counted once a second, and not as they come.
package struct SessionCount {
  private var meter: SessionMeter?
  private var received: UInt64 = 0
  private var sent: UInt64 = 0

  /// The session begins, or goes on at another server block. nil: nobody counts.
  package mutating func move(to next: SessionMeter?) {
    guard next !== meter else { return }
    meter?.didLeave()
    meter = next
    next?.didBegin()
  }

  package mutating func take(received: UInt64, sent: UInt64) {
    guard received != self.received || sent != self.sent else { return }
    meter?.count(received: received &- self.received, sent: sent &- self.sent)
    (self.received, self.sent) = (received, sent)
  }

  package mutating func end(_ result: SessionResult, after time: UInt64) {
    meter?.didEnd(result, after: time)
    meter = nil
  }
}
