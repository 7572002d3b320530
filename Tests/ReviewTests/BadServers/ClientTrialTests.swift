import Testing

@testable import Review

@Suite struct `A trial of clients by bad servers` {
  private func text(_ outcomes: [(BadServer, Bool)], agent: String = "curl/8") -> String {
    outcomes.map {
      ClientVisit($0.0, at: 100, from: "192.0.2.7", isAccepted: $0.1, detail: $0.1 ? agent : "alert").line
    }
    .joined()
  }

  private var passed: [(BadServer, Bool)] { BadServer.allCases.map { ($0, $0 == .good) } }

  @Test func `passes if each bad server was tried and refused, and the good one accepted`() {
    let trial = ClientTrial(text(passed))
    #expect(
      trial.faults.isEmpty && trial.text.contains("refused each bad server") && trial.json.hasPrefix("{\"passed\":true")
    )
  }

  @Test(arguments: BadServer.allCases) func `fails for one other outcome, and names the server`(server: BadServer) {
    let trial = ClientTrial(text(passed.map { ($0.0, $0.0 == server ? !$0.1 : $0.1) }))
    #expect(
      trial.faults.count == 1 && trial.faults[0].contains(server == .good ? "good" : server.rawValue), "\(trial.faults)"
    )
    #expect(server == .good || trial.text.contains("ACCEPTED"))
  }

  @Test(arguments: BadServer.allCases.filter { $0 != .good })
  func `fails for a server that nobody tried, and not for one that may be accepted`(server: BadServer) {
    let others = text(passed.filter { $0.0 != server })
    #expect(ClientTrial(others).faults == ["\(server.rawValue) was not tried"])
    #expect(ClientTrial(others, mayAccept: [server]).faults.isEmpty)
    #expect(ClientTrial(others + text([(server, true)]), mayAccept: [server]).faults.isEmpty)
  }

  @Test func `fails if one client of several accepts, and without any client`() {
    #expect(ClientTrial(text(passed) + text([(.expired, true)], agent: "other")).faults.count == 1)
    #expect(ClientTrial("").faults == ["no client has come to any of the servers"])
    #expect(ClientTrial("half a li").faults.count == 1)
  }

  @Test func `counts connections of one client with one outcome together`() {
    let trial = ClientTrial(text([(.expired, true), (.expired, true), (.expired, false)]))
    #expect(trial.entries.map(\.count) == [2, 1])
  }

  @Test func `a line is read as it was written, and nothing of a client gets into another column or line`() throws {
    let visit = ClientVisit(
      .oldTLS, at: 5, from: "::1", isAccepted: true,
      detail: "a\tb\nc\u{1B}[31m\u{E9}" + String(repeating: "x", count: 500))
    #expect(visit.detail.hasPrefix("a?b?c?[31m??x") && visit.detail.utf8.count == 160)
    #expect(visit.line.filter { $0 == "\n" }.count == 1)
    #expect(ClientVisit(line: try #require(visit.line.split(separator: "\n").first)) == visit)
    for bad in [
      "", "x\tgood\ta\taccepted\t", "1\tnone\ta\taccepted\t", "1\tgood\ta\tperhaps\t", "1\tgood\ta\taccepted",
    ] {
      #expect(ClientVisit(line: bad[...]) == nil, "\(bad)")
    }
  }

  @Test func `the user agent is that of the request's head`() {
    #expect(
      ClientVisit.agent(ofRequest: Array("GET / HTTP/1.1\r\nHost: a\r\nuser-agent: x/1 (y)\r\n\r\n".utf8)) == "x/1 (y)")
    #expect(ClientVisit.agent(ofRequest: Array("GET / HTTP/1.1\r\n\r\n".utf8)) == "")
    #expect(ClientVisit.agent(ofRequest: [0xFF, 0x0A, 0x00]) == "")
  }

  @Test func `each server has a port of its own, and the highest fits`() {
    let first = BadServer.highestFirstPort
    let ports = BadServer.allCases.map { $0.port(after: first) }
    #expect(Set(ports).count == ports.count && ports.last == .max && !ports.contains(first))
  }
}
