import Bytes
@testable import Features
@testable import Forward
import HTTP
import TestSupport
import Testing
@testable import Traffic
import Transport

@Suite struct `Filters of a response` {
  private func rig(_ directives: String) throws -> Rig {
    try Rig(
      """
      upstream u { server 127.0.0.1:9; }
      server { listen 80; location / { proxy_pass http://u; \(directives) } }
      """)
  }

  private func ask(_ rig: Rig, _ answer: String) throws -> MemoryStream {
    let client = try rig.ask("GET / HTTP/1.1", "Host: h")
    try rig.upstream.open()
    try rig.upstream.answer("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 40\r\n\r\n" + answer)
    return client
  }

  @Test func `stand in nginx's order, after those of the content`() throws {
    let rig = try rig("add_trailer X y; limit_rate 1k; gzip on; proxy_limit_rate 1k;")
    let client = try ask(rig, "")
    let filters = try #require(client.location).filters.map { "\(type(of: $0))" }
    #expect(filters == ["UpstreamRate", "GzipFilter", "ResponseRate", "AddedTrailers"])
  }

  @Test func `are none where nothing asks for one`() throws {
    let client = try ask(try rig(""), "")
    #expect(try #require(client.location).filters.isEmpty && client.exchange?.progress.filters.first == nil)
  }

  // The client of an HTTP/2 stream may open its window long after the rate lets more be read. Then nothing but the stream
  // itself can tell that it has taken the bytes.
  @Test func `proxy_limit_rate goes on when a slow client has taken what waited`() throws {
    let rig = try rig("proxy_limit_rate 10;")
    let client = try ask(rig, String(repeating: "a", count: 20))
    let pacer = try #require(client.exchange?.progress.filters.first as? UpstreamPacer)
    #expect(client.body.utf8.count == 20 && pacer.holdsSource)
    try rig.upstream.answer(String(repeating: "b", count: 10))
    #expect(client.body.utf8.count == 20, "the upstream is read although the rate holds it")
    client.held = 5
    #expect(client.watchedFor == nil)
    pacer.deadlinePassed()
    #expect(!pacer.holdsSource && client.watchedFor == 60_000 && client.body.utf8.count == 20)
    client.held = 0
    client.exchange?.streamDidDrain()
    #expect(client.body.utf8.count == 30)
  }

  @Test func `a drained client asks for nothing that a rate holds`() throws {
    let rig = try rig("proxy_limit_rate 10;")
    let client = try ask(rig, String(repeating: "a", count: 20))
    let pacer = try #require(client.exchange?.progress.filters.first as? UpstreamPacer)
    try rig.upstream.answer(String(repeating: "b", count: 10))
    client.exchange?.streamDidDrain()
    #expect(client.body.utf8.count == 20)
    pacer.deadlinePassed()
    #expect(client.body.utf8.count == 30)
  }

  @Test func `a break waits for the bytes that a rate keeps`() throws {
    let rig = try rig("limit_rate 10;")
    let client = try ask(rig, String(repeating: "a", count: 20))
    let pacer = try #require(client.exchange?.progress.filters.first as? ResponsePacer)
    #expect(client.body.utf8.count == 10 && pacer.kept.count == 10)
    try rig.upstream.answer("", ends: true)
    #expect(client.cutReason == nil && client.exchange != nil)
    client.exchange?.clientDidLeave()
    #expect(client.cutReason == .clientLeft && rig.worker.responses.used == 0)
  }
}
