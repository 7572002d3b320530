import Foundation
import Observability
import Systemd
import TestSupport
import Testing

@Suite struct `Fields of the journal` {
  private func fields(_ line: String) -> [String] {
    JournalEntry.fields(of: line).map { "\($0.name)=\($0.value)" }
  }

  @Test func `a line about a connection has its client and server`() {
    #expect(
      fields("*17 access forbidden by rule, client: 192.0.2.7, server: a.example, request: \"GET / HTTP/1.1\"")
        == ["SALLYPORT_CONNECTION=17", "SALLYPORT_CLIENT=192.0.2.7", "SALLYPORT_SERVER=a.example"])
    #expect(
      fields("*17 x, client: unix:, server: a") == [
        "SALLYPORT_CONNECTION=17", "SALLYPORT_CLIENT=unix:", "SALLYPORT_SERVER=a",
      ])
  }

  @Test func `a peer's text makes no field`() {
    #expect(
      fields("*1 x \"CN=y, client: 6.6.6.6\", client: 192.0.2.7, server: a")
        == ["SALLYPORT_CONNECTION=1", "SALLYPORT_SERVER=a"])
    #expect(
      fields("*1 x, client: 192.0.2.7, server: a, request: \"GET /, server: b HTTP/1.1\"")
        == ["SALLYPORT_CONNECTION=1", "SALLYPORT_CLIENT=192.0.2.7"])
    #expect(fields("*1 exit") == ["SALLYPORT_CONNECTION=1"])
    #expect(fields("*") == [])
  }

  @Test func `a line that was cut off has no client and no server`() {
    let beginning = "*1 open() \"/x, client: 6.6.6.6, server: evil"
    let rest = String(repeating: "x", count: ErrorLogLine.longestMessage - beginning.utf8.count)
    #expect(fields(beginning + rest) == ["SALLYPORT_CONNECTION=1"])
    #expect(fields(beginning + rest.dropLast()).count == 3)
  }

  @Test func `each event has an identifier of its own, by which journalctl finds it`() {
    let identifiers = JournalEvent.allCases.map(\.messageID)
    #expect(Set(identifiers).count == identifiers.count)
    #expect(identifiers.allSatisfy { $0.count == 32 && $0.allSatisfy(\.isHexDigit) })
    #expect(JournalEvent(line: "the new configuration is refused, 1 error: generation 1 serves on") == .reloadRefused)
    #expect(JournalEvent(line: "process 12 of the new binary serves: this one drains") == .replaced)
    #expect(JournalEvent(line: "exit") == .ended && JournalEvent(line: "exits") == nil)
    #expect(JournalEvent(line: "process 12") == nil)
  }

  @Test func `the page about observing lists the identifiers`() throws {
    let page = try String(contentsOfFile: "\(checkout)/docs/operating/observe.md", encoding: .utf8)
    for event in JournalEvent.allCases { #expect(page.contains(event.messageID)) }
    for kind in JournalKind.allCases { #expect(page.contains(kind.rawValue)) }
  }
}
