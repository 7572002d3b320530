/// What was counted within the last ten minutes: a point each ten seconds, for rates and lines over time.
///
/// A timer of the process takes the points, so no request does anything for them. The size is bounded, whatever a
/// configuration holds.
package struct CountHistory: Sendable {
  /// Whose counts they are.
  package enum Subject: Sendable, Hashable {
    case server(ServerSeries)
    case stream(ServerSeries)
    case upstream(UpstreamSeries)
    /// A worker, by its index. Its points are the lag of its loop, in milliseconds.
    case worker(Int)
  }

  /// Counts since the start of the process, at one moment.
  package struct Point: Sendable, Equatable {
    package var all: UInt64
    /// Those of `all` that were errors of a server.
    package var errors: UInt64

    package init(all: UInt64, errors: UInt64 = 0) {
      self.all = all
      self.errors = errors
    }

    static func += (sum: inout Point, other: Point) {
      sum.all &+= other.all
      sum.errors &+= other.errors
    }

    /// A count that fell began again at 0.
    fileprivate func since(_ former: Point) -> Point {
      Point(
        all: all >= former.all ? all - former.all : all,
        errors: errors >= former.errors ? errors - former.errors : errors)
    }
  }

  /// What came within a span.
  package struct Span: Sendable, Equatable {
    package let counts: Point
    /// Seconds; at least 1. The process may be younger than what was asked for.
    package let seconds: Int64

    /// In each minute, rounded.
    package var perMinute: UInt64 {
      let (product, overflow) = counts.all.multipliedReportingOverflow(by: 60)
      return overflow ? .max : (product &+ UInt64(seconds) / 2) / UInt64(seconds)
    }
  }

  /// Seconds between two points, at least.
  package static let interval: Int64 = 10
  /// Seconds that a point is kept.
  package static let length: Int64 = 600
  /// So many subjects have points; the others show none.
  static let limit = 512

  /// When each point was taken, in seconds of a monotonic clock.
  private var times: [Int64] = []
  /// By subject: the points at the last of `times`. A subject that is younger has fewer.
  private var points: [Subject: [Point]] = [:]

  package init() {}

  package func isDue(at now: Int64) -> Bool { times.last.map { now - $0 >= Self.interval } ?? true }

  /// Subjects that are not among `counts` are forgotten.
  package mutating func take(_ counts: [(subject: Subject, point: Point)], at now: Int64) {
    times.append(now)
    let old = times.prefix { now - $0 > Self.length }.count
    times.removeFirst(old)
    var fresh: [Subject: [Point]] = [:]
    for (subject, point) in counts.prefix(Self.limit) {
      fresh[subject] = Array(((points[subject] ?? []) + [point]).suffix(times.count))
    }
    points = fresh
  }

  /// What came within the last seconds; nil: there are no two points yet.
  package func span(_ subject: Subject, seconds: Int64) -> Span? {
    guard let points = points[subject], points.count > 1, let now = times.last, let last = points.last else {
      return nil
    }
    let former = Array(zip(times.suffix(points.count), points))
    // The last point that is as old as asked for, or else the oldest.
    guard let (time, point) = former.last(where: { now - $0.0 >= seconds }) ?? former.first else { return nil }
    return Span(counts: last.since(point), seconds: max(1, now - time))
  }

  /// What came between each two points, in a minute each; the oldest first.
  package func line(_ subject: Subject) -> [UInt64] {
    guard let points = points[subject] else { return [] }
    let pairs = Array(zip(times.suffix(points.count), points))
    return zip(pairs, pairs.dropFirst()).map { former, one in
      Span(counts: one.1.since(former.1), seconds: max(1, one.0 - former.0)).perMinute
    }
  }

  /// The points themselves, of a subject whose points are no counts; the oldest first.
  package func values(_ subject: Subject) -> [UInt64] { (points[subject] ?? []).map(\.all) }
}
