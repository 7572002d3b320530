import Testing

@testable import Observability

@Suite struct `Lines that repeat` {
  @Test func `a fault of an hour leaves one line and a summary for each of ever longer windows`() {
    var lines = LineFolding(.faults)
    var written = 0
    var summaries: [LineFolding.Summary] = []
    for second in UInt64(0)..<3600 {
      for turn in UInt64(0)..<10 where lines.choose(now: second * 1000 + turn) == .write { written += 1 }
      if let summary = lines.due(now: second * 1000 + 999) { summaries.append(summary) }
    }
    #expect(written == 1)
    #expect(summaries.first == LineFolding.Summary(folded: 109, milliseconds: 10_999))
    #expect(summaries.count == 7, "\(summaries)")
  }

  @Test func `a window without an event ends the series, and the next event is written`() {
    var lines = LineFolding(.faults)
    #expect(lines.choose(now: 0) == .write)
    #expect(lines.choose(now: 1) == .fold)
    #expect(lines.due(now: 9_999) == nil && lines.due(now: 10_000)?.folded == 1)
    #expect(lines.due(now: 69_999) == nil && !lines.isQuiet)
    #expect(lines.due(now: 70_000) == nil && lines.isQuiet)
    #expect(lines.choose(now: 70_001) == .write)
  }

  @Test func `clocks of two loops that differ, stand still or wrap do no harm`() {
    var lines = LineFolding(.faults)
    #expect(lines.choose(now: 1000) == .write)
    #expect(lines.due(now: 999) == nil && lines.choose(now: 998) == .fold)
    var late = LineFolding(.faults)
    _ = late.choose(now: .max)
    #expect(late.due(now: 0) == nil && late.due(now: .max) == nil)
    #expect(late.choose(now: 0) == .fold)
  }

  @Test func `a crowd is some lines and then its numbers by cause with examples of the clients`() {
    var crowd = CrowdFolding<Kind>(.handshakes)
    var written = 0
    for index in 0..<20_000 {
      if crowd.choose(index % 4 == 0 ? .late : .gone, of: "10.0.0.\(index % 7)", now: 5) == .write { written += 1 }
    }
    #expect(written == 5)
    #expect(crowd.due(now: 9000) == nil)
    let summary = crowd.due(now: 10_005)
    #expect(summary?.words == "19995 in 10 s: gone 14997, late 4998; clients: 10.0.0.5, 10.0.0.6, 10.0.0.0, …")
    #expect(summary?.isFlood == true && summary?.counts[.late] == 4998)
    // The numbers begin anew.
    #expect(crowd.choose(.late, of: "::1", now: 10_006) == .fold)
    #expect(crowd.due(now: 70_005)?.words == "1 in 60 s: late 1; clients: ::1")
  }

  enum Kind: String, CaseIterable, Sendable { case gone, late }
}

@Suite struct `What the log says of a server's faults` {
  @Test func `a server that can't be reached is down at once, and up again after its last failure`() {
    var record = FaultRecord()
    let first = record.note("refused", .unreachable, now: 1000)
    #expect(first == FaultRecord.Note(choice: .write, wentDownAfter: 1))
    for now in UInt64(1001)...12_008 {
      #expect(record.note("refused", .unreachable, now: now) == FaultRecord.Note(choice: .fold))
    }
    #expect(record.succeeded(now: 12_009) == .undecided)
    #expect(record.succeeded(now: 20_000) == .up(failures: 11_009, milliseconds: 19_000))
    #expect(record.isQuiet && record.succeeded(now: 20_001) == .none)
    #expect(record.note("refused", .unreachable, now: 20_002).choice == .write)
  }

  @Test func `a failed attempt is no server that is down; three in a row are`() {
    var record = FaultRecord()
    for now in UInt64(0)..<100 {
      #expect(record.note("timed out", .attempt, now: now).wentDownAfter == nil)
      #expect(record.succeeded(now: now) == .none)
    }
    let counts = (UInt64(200)..<204).map { record.note("timed out", .attempt, now: $0).wentDownAfter }
    #expect(counts == [nil, nil, 3, nil])
    #expect(record.succeeded(now: 5203) == .up(failures: 4, milliseconds: 5003))
  }

  @Test func `who fails and answers by turns is not back`() {
    var record = FaultRecord()
    var written = 0, back = 0
    for step in UInt64(0)..<10_000 {
      if record.note("refused", .unreachable, now: step).choice == .write { written += 1 }
      if record.succeeded(now: step) != .undecided { back += 1 }
    }
    #expect(written == 1 && back == 0)
  }

  @Test func `a server that nobody asks any more is forgotten`() {
    var record = FaultRecord()
    _ = record.note("refused", .unreachable, now: 0)
    #expect(record.due(now: 599_999) == [] && !record.isQuiet)
    #expect(record.due(now: 600_000) == [] && record.isQuiet)
  }

  @Test func `texts that a peer varies share one place`() {
    var record = FaultRecord()
    let written = (0..<10_000).count { record.note("key \($0)", .none, now: 7).choice == .write }
    #expect(written == FaultRecord.texts + 1)
    let summaries = record.due(now: 10_007)
    #expect(summaries == [FaultRecord.Summary(text: nil, folded: 9991, milliseconds: 10_000)])
  }

  @Test func `the log names the server, folds what repeats, and counts what failed`() {
    let recorder = Recorder()
    let log = ErrorLog([ErrorLogSink(level: .info, handler: recorder.handler())])
    let faults = FaultLog()
    let server = "upstream \"app\": server 10.0.0.5:8443"
    let first = faults.note("refused", about: server, .unreachable, .error, log, now: 0)
    #expect(first == FaultLog.Decision(writes: true, downLine: "\(server) is down: refused"))
    for now in UInt64(1)...99 {
      #expect(!faults.note("refused", about: server, .unreachable, .error, log, now: now).writes)
    }
    // A fault of another subject is written at once.
    #expect(faults.note("refused", about: "", .none, .crit, log, now: 50).writes)
    faults.tick(now: 9000)
    #expect(recorder.lines.isEmpty)
    faults.tick(now: 10_000)
    #expect(!faults.succeeded(server, now: 100))
    #expect(faults.succeeded(server, now: 12_500))
    #expect(faults.succeeded(server, now: 12_501))
    #expect(
      recorder.lines == [
        "error error \(server): refused (99 more of these in 10 s)",
        "error error \(server) is up again after 12 s, 100 attempts failed",
      ], "\(recorder.lines)")
  }

  @Test func `the subjects are bounded`() {
    let log = ErrorLog([])
    let faults = FaultLog()
    for index in 0..<10_000 {
      _ = faults.note("refused", about: "\(index)", .unreachable, .error, log, now: UInt64(index))
    }
    // The last ones are remembered, the first one begins anew.
    #expect(!faults.note("refused", about: "9999", .unreachable, .error, log, now: 10_000).writes)
    #expect(faults.note("refused", about: "0", .unreachable, .error, log, now: 10_000).writes)
  }
}
