import Testing

@testable import Observability

@Suite struct `The level of error logs for a time` {
  private let levels = ErrorLogLevels()

  private func log(_ sinks: [(LogLevel, Recorder)]) -> ErrorLog {
    let log = ErrorLog(sinks.map { ErrorLogSink(level: $0.0, handler: $0.1.handler()) })
    levels.follow(log)
    return log
  }

  @Test func `adds lines where the most detailed ones go, and takes none away`() {
    let (file, pager, talkative) = (Recorder(), Recorder(), Recorder())
    let (log, other) = (log([(.warn, file), (.crit, pager)]), log([(.debug, talkative)]))
    levels.begin(LogLevelOverride(.info, seconds: 9, asker: "me"))
    for log in [log, other] {
      log.debug("one")
      log.info("two")
      log.crit("three")
    }
    #expect(file.lines == ["info info two", "crit critical three"] && pager.lines == ["crit critical three"])
    #expect(talkative.lines == ["debug debug one", "info info two", "crit critical three"])
  }

  @Test func `counts for a log that is opened later, and a log without a sink still builds nothing`() {
    levels.begin(LogLevelOverride(.debug, seconds: 9, asker: "me"))
    #expect(log([(.error, Recorder())]).takes(.debug) && !log([]).takes(.alert))
  }

  @Test func `ends once, with a line that the logs still take`() {
    let recorder = Recorder(), log = log([(.error, recorder)])
    func end(at now: UInt64) -> Bool {
      levels.end {
        $0.rest(now: now) == 0
      } _: {
        log.notice("over, \($0.asker)")
      }
    }
    #expect(!end(at: .max))
    levels.begin(LogLevelOverride(.notice, seconds: 2, asker: "me", now: 1000))
    #expect(!end(at: 2999) && log.takes(.notice))
    #expect(end(at: 3000) && !end(at: 3000))
    log.notice("more")
    #expect(recorder.lines == ["notice notice over, me"] && levels.current == nil && !log.takes(.warn))
  }

  @Test func `has a bounded time, a level at which its end can be told, and gives way to the next one`() {
    let long = LogLevelOverride(.emerg, seconds: .max, asker: "me", now: 0)
    #expect(long.rest(now: 0) == 86_400 && long.level == .notice)
    #expect(LogLevelOverride(.info, seconds: -1, asker: "me", now: .max).rest(now: 0) <= 1)
    let log = log([(.error, Recorder())])
    levels.begin(LogLevelOverride(.debug, seconds: 9, asker: "me"))
    levels.begin(LogLevelOverride(.info, seconds: 9, asker: "you"))
    #expect(!log.takes(.debug) && log.takes(.info) && levels.current?.asker == "you")
  }
}
