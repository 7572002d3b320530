@testable import Features
@testable import Forward
import Testing
@testable import Traffic

@Suite struct `The servers that sticky learn remembers` {
  private func key(_ name: String) -> LearnedServers.Key { LearnedServers.Key(Array(name.utf8)) }

  @Test func `are those of the sessions used last, within the size`() {
    var servers = LearnedServers(size: 10 * LearnedServers.bytesOfOne)
    func learn(_ name: String, _ server: String, creates: Bool = true, now: UInt64 = 0) {
      servers.learn(key(name), Array(server.utf8), now: now, timeout: 1000, mayCreate: creates)
    }
    func server(_ name: String, now: UInt64 = 0) -> String? {
      servers.server(of: key(name), now: now, timeout: 1000).map { String(decoding: $0, as: UTF8.self) }
    }
    for index in 0..<10 { learn("s\(index)", "a") }
    learn("s0", "b", creates: false)
    learn("unknown", "a", creates: false)
    #expect(servers.count == 10 && server("s0") == "b" && server("unknown") == nil)
    learn("new", "c")
    // The one used least recently has made room.
    #expect(servers.count == 10 && server("s0") == "b" && server("s1") == nil && server("new") == "c")
    for index in 0..<100_000 { learn("flood\(index)", "x") }
    #expect(servers.count == 10 && server("s0") == nil)
  }

  @Test func `are forgotten after the timeout, and each use begins it anew`() {
    var servers = LearnedServers(size: 100_000)
    servers.learn(key("a"), [1], now: 100, timeout: 50, mayCreate: true)
    servers.learn(key("b"), [2], now: 120, timeout: 50, mayCreate: true)
    #expect(servers.server(of: key("a"), now: 149, timeout: 50) == [1])
    #expect(servers.server(of: key("a"), now: 150, timeout: 50) == nil)
    servers.learn(key("b"), [2], now: 160, timeout: 50, mayCreate: false)
    #expect(servers.count == 1 && servers.server(of: key("b"), now: 209, timeout: 50) == [2])
    // A worker's clock may be behind another's.
    #expect(servers.server(of: key("b"), now: 10, timeout: 50) == [2])
  }

  @Test func `a size of nothing holds one`() {
    var servers = LearnedServers(size: 0)
    for name in ["a", "b"] { servers.learn(key(name), [3], now: 0, timeout: 1, mayCreate: true) }
    #expect(servers.count == 1 && servers.server(of: key("b"), now: 0, timeout: 1) == [3])
  }
}

@Suite struct `The cookie of sticky` {
  @Test func `has nginx's form of a date`() {
    func date(_ text: String) -> String { String(decoding: StickyCookie.cookieDate(Array(text.utf8)), as: UTF8.self) }
    #expect(date("Sun, 06 Nov 1994 08:49:37 GMT") == "Sun, 06-Nov-94 08:49:37 GMT")
    #expect(date("Thu, 31 Dec 2037 23:55:55 GMT") == "Thu, 31-Dec-37 23:55:55 GMT")
    #expect(date("Fri, 01 Jan 2038 00:00:00 GMT") == "Fri, 01-Jan-2038 00:00:00 GMT")
    #expect(date("x") == "x")
    #expect(StickyCookie.isSameSite(Array("LAX".utf8)) && !StickyCookie.isSameSite(Array("lax; secure".utf8)))
  }
}
