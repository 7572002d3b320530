@testable import Features
@testable import Forward
import Testing
@testable import Traffic

@Suite struct ConnectionLimitTests {
  private let one = Array("one".utf8), two = Array("two".utf8), three = Array("three".utf8)
  private static let zone = "limit_conn_zone $arg_k zone=c:1m; upstream u { server 127.0.0.1:9; } "

  @Test func `connections are counted until they end, and their memory with them`() {
    var counts = ConnectionCounts(size: 2 * ConnectionCounts.bytes(ofKey: 5))
    #expect(counts.take(one, limit: 2) == .counted)
    #expect(counts.take(one, limit: 2) == .counted)
    #expect(counts.take(one, limit: 2) == .refused)
    #expect(counts.take(two, limit: 1) == .counted)
    #expect(counts.take(three, limit: 1) == .full)
    counts.release(one)
    #expect(counts.take(one, limit: 2) == .counted)
    counts.release(two)
    #expect(counts.take(three, limit: 1) == .counted)
    for key in [one, one, three] { counts.release(key) }
    #expect(counts.count == 0 && counts.usedBytes == 0)
  }

  @Test func `a count of limit_conn lasts as long as its exchange`() throws {
    let rig = try Rig(
      Self.zone + "server { listen 80; location / { limit_conn c 1; proxy_pass http://u; } }")
    let first = try rig.ask("GET /?k=a HTTP/1.1", "Host: h")
    let second = try rig.ask("GET /?k=a HTTP/1.1", "Host: h")
    #expect(rig.upstreams.count == 1)
    #expect(
      second.exchange == nil || second.exchange?.states.known(ConnectionLimitState.self)?.verdict == .rejected)
    first.exchange?.clientDidLeave()
    _ = try rig.ask("GET /?k=a HTTP/1.1", "Host: h")
    #expect(rig.upstreams.count == 2)
  }
}
