import Bytes
import Glibc
import Logging
import Testing

@testable import Observability

func event(_ level: Logger.Level, _ message: String, _ metadata: Logger.Metadata? = nil) -> LogEvent {
  LogEvent(
    level: level, message: "\(message)", metadata: metadata, source: nil, file: "", function: "", line: 0)
}

@Suite struct `The error log` {
  @Test func `builds no message that no sink takes`() {
    let recorder = Recorder()
    let log = ErrorLog([ErrorLogSink(level: .warn, handler: recorder.handler())])
    var built = 0
    func message() -> String {
      built += 1
      return "said"
    }
    log.info(message())
    log.log(.notice, message())
    #expect(built == 0)
    log.warn(message())
    #expect(built == 1)
    #expect(recorder.lines == ["warn warning said"])
    #expect(log.takes(.error))
    #expect(!log.takes(.debug))
  }

  @Test func `gives each sink the levels it asked for, whatever its own threshold was`() {
    let (all, grave) = (Recorder(), Recorder())
    let log = ErrorLog([
      ErrorLogSink(level: .debug, handler: all.handler()), ErrorLogSink(level: .crit, handler: grave.handler()),
    ])
    for level in LogLevel.allCases { log.log(level, level.name) }
    #expect(
      all.lines == [
        "debug debug debug", "info info info", "notice notice notice", "warn warning warn", "error error error",
        "crit critical crit", "alert critical alert", "emerg critical emerg",
      ])
    #expect(grave.lines == ["crit critical crit", "alert critical alert", "emerg critical emerg"])
  }

  @Test func `without sinks takes nothing below emerg and survives that`() {
    let log = ErrorLog([])
    log.emerg("nobody hears")
    #expect(!log.takes(.alert))
  }

  @Test func `levels are ordered and spelt as nginx's, with syslog's numbers`() {
    #expect(LogLevel.allCases.map(\.name) == ["debug", "info", "notice", "warn", "error", "crit", "alert", "emerg"])
    #expect(LogLevel.allCases == LogLevel.allCases.sorted())
    #expect(LogLevel.allCases.map(\.syslogSeverity) == [7, 6, 5, 4, 3, 2, 1, 0])
    #expect(LogLevel.allCases.map { LogLevel(name: $0.name) } == LogLevel.allCases)
    #expect(LogLevel(name: "warning") == nil)
  }
}

@Suite struct `An error log's line` {
  @Test func `has nginx's form`() throws {
    var line = ByteBuffer()
    ErrorLogLine.append(event(.error, "*7 upstream timed out"), at: 1_795_260_601, to: &line)
    let form = try Regex(#"^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d \[error\] (\d+)#\d+: \*7 upstream timed out$"#)
    let match = try #require(try form.wholeMatch(in: line.readable.text))
    #expect(match.output[1].substring == "\(getpid())")
  }

  @Test func `spells control characters out, so that a peer can't forge a line`() {
    let message = ErrorLogLine.message(event(.info, "host \"a\r\n2026/11/21 [emerg] \u{1B}[2J\u{7F}é\""))
    #expect(message == #"host "a\x0D\x0A2026/11/21 [emerg] \x1B[2J\x7Fé""#)
  }

  @Test func `spells out the control characters above ASCII too, which a terminal obeys`() {
    let message = ErrorLogLine.message(event(.info, "\u{80}a\u{9B}31m\u{9F}\u{A0}\u{C2}\u{2028}é"))
    #expect(message == "\\xC2\\x80a\\xC2\\x9B31m\\xC2\\x9F\u{A0}\u{C2}\u{2028}é")
  }

  @Test func `is bounded`() {
    let message = ErrorLogLine.message(event(.info, String(repeating: "x", count: 100_000), ["k": "v"]))
    #expect(message == String(repeating: "x", count: ErrorLogLine.longestMessage))
  }

  @Test func `ends with the metadata of third parties, sorted, but not with our severity`() {
    let told = event(.critical, "m", ["b": "2", "a": "1\n", LogLevel.severityKey: "alert"])
    #expect(ErrorLogLine.message(told, under: ["a": "outdone", "c": "3"]) == "m a=1\\x0A b=2 c=3")
    #expect(LogLevel(told) == .alert)
  }
}
