import Testing

@testable import Observability

@Suite struct `The last error` {
  @Test func `is the last line at error or above, with how many there were`() {
    let tally = ErrorTally(), recorder = Recorder()
    let log = ErrorLog([ErrorLogSink(level: .info, handler: recorder.handler())], tally: tally)
    log.warn("only a warning")
    #expect(tally.last == nil)
    log.error("one")
    log.alert("two")
    log.notice("nothing")
    #expect(tally.last?.text == "two" && tally.last?.count == 2)
    #expect(tally.last?.at ?? 0 > 1_600_000_000)
  }

  @Test func `is bounded, whatever a client makes somebody log`() {
    let tally = ErrorTally()
    tally.note(String(repeating: "ä", count: 10_000), at: 1)
    #expect(tally.last?.text.unicodeScalars.count == ErrorTally.length + 1)
    #expect(tally.last?.text.hasSuffix("…") == true)
  }
}
