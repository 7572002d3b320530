@testable import Features
@testable import Forward
import Testing
@testable import Traffic
import Transport

@Suite struct `The client behind proxies` {
  @Test func `the client of trusted proxies is found in what any client may write`() throws {
    let trusted = try ["10.0.0.0/8", "2001:db8::/32"].map {
      AccessRule.Source(network: try #require(AddressRange.parse($0)).range)
    }
    let peer = try #require(SocketAddress(literal: "10.0.0.1", port: 1))
    func walk(_ peer: SocketAddress, _ list: String, recursive: Bool) -> SocketAddress {
      var walk = ForwardedWalk(from: peer, trusted: trusted, isRecursive: recursive)
      _ = Array(list.utf8).withUnsafeBytes { walk.take($0) }
      return walk.address
    }
    func find(_ list: String, recursive: Bool = true) -> String {
      walk(peer, list, recursive: recursive).host
    }
    for (list, found) in [
      ("", "10.0.0.1"), ("192.0.2.1", "192.0.2.1"), ("192.0.2.1, 10.0.0.2", "192.0.2.1"), (" , ,", "10.0.0.1"),
      ("6.6.6.6, 192.0.2.1, 10.0.0.2", "192.0.2.1"), ("bad, 10.0.0.2", "10.0.0.2"),
      ("192.0.2.1:80,10.0.0.2", "192.0.2.1"),
      ("[2001:db8::1]:443", "2001:db8::1"), ("[2001:db8::1", "10.0.0.1"), ("[::1]x", "10.0.0.1"),
      ("1.2.3.4:99999", "10.0.0.1"),
      ("2001:db9::1, 2001:db8::2", "2001:db9::1"), ("unix:", "10.0.0.1"), ("10.0.0.3", "10.0.0.3"),
      (String(repeating: "1", count: 100_000), "10.0.0.1"), (String(repeating: "10.0.0.4,", count: 20_000), "10.0.0.4"),
    ] {
      #expect(find(list) == found, "\(list.prefix(40))")
    }
    #expect(find("192.0.2.1, 10.0.0.2", recursive: false) == "10.0.0.2")
    let stranger = try #require(SocketAddress(literal: "192.0.2.9", port: 1))
    #expect(walk(stranger, "1.1.1.1", recursive: true) == stranger)
  }
}
