import HTTP
import Observability
import Testing
@testable import Traffic

@Suite struct `What was counted within the last ten minutes` {
  private typealias Point = CountHistory.Point
  private static let subject = CountHistory.Subject.server(ServerSeries(server: "a", listen: "80"))

  private func history(_ points: [(at: Int64, all: UInt64, errors: UInt64)]) -> CountHistory {
    var history = CountHistory()
    for point in points { history.take([(Self.subject, Point(all: point.all, errors: point.errors))], at: point.at) }
    return history
  }

  @Test func `a rate is of the span that was asked for, or of the process's life if it is shorter`() throws {
    let history = history((0...20).map { (at: $0 * 10, all: UInt64($0) * 50, errors: UInt64($0)) })
    let minute = try #require(history.span(Self.subject, seconds: 60))
    #expect(minute.counts == Point(all: 300, errors: 6) && minute.seconds == 60 && minute.perMinute == 300)
    let life = try #require(history.span(Self.subject, seconds: 600))
    #expect(life.counts == Point(all: 1000, errors: 20) && life.seconds == 200)
    #expect(history.line(Self.subject) == Array(repeating: 300, count: 20))
  }

  @Test func `one point makes no rate, and neither does a stranger`() {
    let history = history([(at: 5, all: 100, errors: 0)])
    #expect(history.span(Self.subject, seconds: 60) == nil && history.line(Self.subject).isEmpty)
    #expect(history.span(.worker(3), seconds: 60) == nil && history.values(.worker(3)).isEmpty)
  }

  @Test func `a point is due ten seconds after the last one, and none is kept for longer than ten minutes`() {
    let history = history((0...1000).map { (at: $0 * 10, all: UInt64($0), errors: 0) })
    #expect(!history.isDue(at: 10_009) && history.isDue(at: 10_010) && CountHistory().isDue(at: 0))
    #expect(history.values(Self.subject).count == 61)
    #expect(history.values(Self.subject).first == 940)
  }

  @Test func `a subject that came later has a life of its own, and one that is gone has none`() {
    var history = history([(at: 0, all: 1, errors: 0), (at: 10, all: 2, errors: 0)])
    let late = CountHistory.Subject.worker(1)
    history.take([(Self.subject, Point(all: 3)), (late, Point(all: 7))], at: 20)
    history.take([(late, Point(all: 9))], at: 30)
    #expect(history.span(Self.subject, seconds: 60) == nil)
    #expect(history.span(late, seconds: 600)?.seconds == 10)
    #expect(history.span(late, seconds: 600)?.counts.all == 2)
  }

  @Test func `a count that began again at 0 gives no rate beyond what it has counted since`() {
    let history = history([(at: 0, all: 1000, errors: 5), (at: 10, all: 4, errors: 0)])
    #expect(history.line(Self.subject) == [24])
  }

  @Test func `there is a bound on subjects, and none of the numbers overflows`() {
    var history = CountHistory()
    let many = (0..<2000).map { (CountHistory.Subject.worker($0), Point(all: .max, errors: .max)) }
    history.take(many.map { ($0.0, Point(all: 0)) }, at: .min / 4)
    history.take(many, at: .min / 4 + 10)
    #expect(history.span(.worker(0), seconds: 600)?.perMinute == .max)
    #expect(history.values(.worker(CountHistory.limit - 1)).count == 2)
    #expect(history.values(.worker(CountHistory.limit)).isEmpty)
  }

  @Test func `a request that a limit refused by a 5xx is no server's error, another 5xx is one`() {
    let meter = RequestMeter()
    meter.count(status: 503, limit: 503, time: 1, received: 0, sent: 0)
    meter.count(status: 502, limit: 503, time: 1, received: 0, sent: 0)
    meter.count(status: 503, limit: 0, time: 1, received: 0, sent: 0)
    meter.count(status: 429, limit: 429, time: 1, received: 0, sent: 0)
    meter.count(status: 0, limit: 0, time: 1, received: 0, sent: 0)
    var totals = RequestTotals()
    meter.add(to: &totals)
    #expect(totals.classes == [1, 0, 0, 0, 1, 2, 1])
    #expect(totals.serverErrors == 2 && totals.limited == 1 && totals.all == 5 && totals.times.count == 5)
    #expect(meter.all == 5 && meter.serverErrors == 2)
    #expect(StatusPlaces.seen(totals.codes).map { "\($0.status) \($0.count)" } == ["429 1", "502 1", "503 2"])
  }

  @Test func `the lag of the last seconds is forgotten after twenty`() {
    let lag = LoopLag()
    lag.note(700)
    for _ in 0..<9 { lag.note(1) }
    #expect(lag.recent == 700)
    for _ in 0..<20 { lag.note(2) }
    #expect(lag.recent == 2 && lag.worst == 700)
  }
}
