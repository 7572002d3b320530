import CLinux
import Glibc
import Testing

@testable import Transport

@Suite struct SocketAddressTests {
  @Test(arguments: [
    ("127.0.0.1", "127.0.0.1:80"), ("255.255.255.255", "255.255.255.255:80"), ("::1", "[::1]:80"),
    ("2001:db8::8:800:200c:417a", "[2001:db8::8:800:200c:417a]:80"), ("::ffff:10.0.0.1", "[::ffff:10.0.0.1]:80"),
  ])
  func `a literal is printed as it was read`(text: String, printed: String) throws {
    let address = try #require(SocketAddress(literal: text, port: 80))
    #expect(address.host == text)
    #expect(address.description == printed)
    #expect(address.port == 80)
  }

  @Test(arguments: [
    "", "localhost", "1.2.3", "1.2.3.4.5", "256.1.1.1", "01.2.3.4", "[::1]", "::1%lo", ":::", "1.2.3.4 ",
  ])
  func `what is no literal is no address`(text: String) {
    #expect(SocketAddress(literal: text, port: 1) == nil)
  }

  @Test(arguments: [
    SocketAddress.ipv4(address: 0x7F00_0001, port: 0), .ipv4(address: 0xC0A8_0102, port: 65535),
    .ipv6(high: 0, low: 1, port: 443), .ipv6(high: 0x2001_0DB8_0000_0000, low: 0xFFFF_0000_1234_5678, port: 8443),
    .unix(path: "/run/sallyport.sock"), .unix(path: String(repeating: "x", count: 107)),
  ])
  func `an address survives the way through its C form`(address: SocketAddress) {
    let back = address.withSockaddr { pointer, length in
      var storage = sockaddr_storage()
      memcpy(&storage, pointer, Int(length))
      return SocketAddress(storage, length: length)
    }
    #expect(back == address)
  }

  @Test func `an unnamed unix socket has an empty path`() {
    var storage = sockaddr_storage()
    storage.ss_family = sa_family_t(AF_UNIX)
    #expect(SocketAddress(storage, length: 2) == .unix(path: ""))
    #expect(SocketAddress(storage, length: 0) == .unix(path: ""))
  }

  @Test func `another family is no address`() {
    var storage = sockaddr_storage()
    storage.ss_family = sa_family_t(AF_PACKET)
    #expect(SocketAddress(storage, length: 16) == nil)
  }

  @Test func `who listens on port 0 is told the port, and who connects is seen from there`() throws {
    let loopback = SocketAddress.ipv4(address: 0x7F00_0001, port: 0)
    let listener = try Sockets.listen(on: loopback, backlog: 4, reuseport: false, ipv6only: true)
    defer { close(listener) }
    let bound = try #require(Sockets.localAddress(of: listener))
    #expect(bound.host == "127.0.0.1")
    #expect((bound.port ?? 0) > 0)
    #expect(try Sockets.accept(listener) == nil)
    let client = try Sockets.connect(to: bound)
    defer { close(client) }
    var ready = pollfd(fd: listener, events: Int16(POLLIN), revents: 0)
    #expect(poll(&ready, 1, 10_000) == 1)
    let accepted = try #require(try Sockets.accept(listener))
    defer { close(accepted.descriptor) }
    #expect(accepted.peer == Sockets.localAddress(of: client))
    #expect(fcntl(accepted.descriptor, F_GETFL) & O_NONBLOCK != 0)
    #expect(fcntl(accepted.descriptor, F_GETFD) & FD_CLOEXEC != 0)
  }

  @Test func `an address in use is an error that names the call`() throws {
    let loopback = SocketAddress.ipv4(address: 0x7F00_0001, port: 0)
    let first = try Sockets.listen(on: loopback, backlog: 4, reuseport: false, ipv6only: true)
    defer { close(first) }
    let bound = try #require(Sockets.localAddress(of: first))
    #expect(throws: SocketError("bind", EADDRINUSE)) {
      try Sockets.listen(on: bound, backlog: 4, reuseport: false, ipv6only: true)
    }
    #expect(throws: SocketError("bind", EADDRINUSE)) { try Sockets.tryBinding(to: bound, ipv6only: true) }
    try Sockets.tryBinding(to: loopback, ipv6only: true)
  }

  @Test func `an error reads as nginx's do`() {
    #expect(SocketError("connect", ECONNREFUSED).description == "connect() failed (111: Connection refused)")
    #expect(SocketError("accept4", EMFILE).isExhaustion)
    #expect(!SocketError("connect", ECONNREFUSED).isOurs)
    #expect(SocketError("connect", EADDRNOTAVAIL).isOurs)
  }
}
