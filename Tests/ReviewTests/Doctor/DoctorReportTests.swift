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

  @Test func `what the API has changed is to be looked at, and nothing else is well there`() {
    var (none, some) = (DoctorReport(), DoctorReport())
    none.add(changes: [])
    some.add(changes: ["a server is added", "a certificate is denied"])
    #expect(none.state == .good && none.findings.map(\.text) == ["nothing is changed by the API"])
    #expect(some.state == .warning && some.findings.map(\.text) == ["a server is added", "a certificate is denied"])
  }

  @Test func `what ends within 30 days is told, and nothing else`() {
    var report = DoctorReport()
    for end: Int64? in [nil, 0, 86_400 * 31, .max] { report.add(end: end, of: "a", at: 100) }
    #expect(report.findings.isEmpty)
    report.add(end: 86_400 * 29, of: "b.pem", at: 100)
    #expect(report.findings.map(\.text) == ["b.pem ends in 28 days"])
  }

  @Test func `a server that two locations judge is told with each of them, and one that fails with its own`() {
    var trusted = ProbeReport(), failed = ProbeReport()
    trusted.trust = .trusted
    (failed.failure, failed.fault) = ("alert", .nameMissing)
    var report = DoctorReport()
    report.add([
      ("https://a at 1", ["location /"], trusted), ("https://a at 1", ["location @checks"], failed),
      ("https://b at 2", ["location /b"], trusted), ("https://c at 3", ["location /c", "location /d"], failed),
    ])
    let texts = report.findings.map(\.text)
    #expect(texts[0].hasPrefix("https://a at 1 (location /) is trusted"))
    #expect(
      texts[1].hasPrefix("https://a at 1 (location @checks) the server refuses a handshake that names no host")
        && texts[1].contains("proxy_ssl_server_name on"), "\(texts[1])")
    #expect(texts[2].hasPrefix("https://b at 2 (location /b) is trusted, and gave no answer"))
    #expect(texts[3].hasPrefix("https://c at 3 (location /c; location /d) the server refuses"))
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
