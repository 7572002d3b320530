import TLS
import Testing

@testable import Review

@Suite struct `What the doctor tells` {
  @Test func `what is wrong comes first, and what is well takes one line of each section`() {
    var report = DoctorReport()
    report.add(.service, .good, "process 7")
    report.add(.listeners, .good, "one")
    report.add(.listeners, .good, "two")
    report.add(.upstreams, .warning, "slow")
    report.add(.certificates, .failed, "has\nexpired")
    #expect(report.state == .failed)
    #expect(
      report.lines(isVerbose: false) == [
        "1 failed, 1 to look at, 3 well", "", "FAILED  certificates   has; expired", "WARN    upstreams      slow", "",
        "ok      service        process 7", "ok      listeners      2 checks, such as: one",
      ])
    #expect(report.lines(isVerbose: true).suffix(2) == ["ok      listeners      one", "ok      listeners      two"])
    #expect(report.json(version: "1", now: 5).hasPrefix(#"{"state":"failed","version":"1","time":5,"findings":["#))
  }

  @Test func `a report is as good as its worst finding, and what nobody knows is no fault`() {
    var report = DoctorReport()
    report.add(.changes, .unknown, "no API")
    #expect(report.state == .good)
    report.add(.machine, .warning, "clock")
    #expect(report.state == .warning)
  }

  @Test func `what ends within 30 days is told, and nothing else`() {
    var report = DoctorReport()
    for end: Int64? in [nil, 0, 86_400 * 31, .max] { report.add(end: end, of: "a", at: 100) }
    #expect(report.findings.isEmpty)
    report.add(end: 86_400 * 29, of: "b.pem", at: 100)
    #expect(report.findings.map(\.text) == ["b.pem ends in 28 days"])
  }

  @Test func `an upstream is judged by trust first, and then by what it answers`() {
    var probe = ProbeReport()
    func state() -> DoctorReport.State { DoctorReport.judge(probe).0 }
    #expect(state() == .failed)
    probe.trust = .unverified
    #expect(state() == .warning)
    probe.trust = .refused(kind: "pin", reason: "another key")
    #expect(state() == .failed && DoctorReport.judge(probe).1 == "isn't trusted: another key")
    probe.trust = .trusted
    for (acceptance, expected) in [
      (ProbeReport.Acceptance.accepted(status: 200), DoctorReport.State.good), (.undecided(status: 404), .good),
      (.undecided(status: 403), .warning), (.refused("alert"), .failed), (.unknown("reset"), .failed),
    ] {
      probe.acceptance = acceptance
      #expect(state() == expected, "\(acceptance)")
    }
  }
}
