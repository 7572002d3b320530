import Bytes
import Glibc
import HTTP
import Negotiation
import Observability
import Testing
import Transport

@testable import Upstream

/// Notes what becomes of an attempt.
private final class Witness: AttemptObserver {
  var session: UpstreamSession?
  var isOpen = false
  var failure: AttemptFailure?
  override func attemptDidBegin(_ stream: UpstreamStream) { session = stream.session }
  override func attemptDidOpen(_ stream: UpstreamStream) { isOpen = true }
  override func attemptDidFail(_ failure: AttemptFailure) { self.failure = failure }
}

/// A group whose server only a proxy reaches, and the proxy's end of the last connection. The loop doesn't turn.
private final class Way {
  let loop: EventLoop
  let budget = ConnectionBudget(limit: 100)
  let group: UpstreamGroup
  private(set) var peers: [Int32] = []

  init() throws {
    let place = SourceLocation(file: "", line: 0, column: 0)
    let server = UpstreamServerSettings(address: .name("a.test", port: 443), location: place)
    var settings = UpstreamGroupSettings(name: "up", servers: [server], location: place)
    settings.keepalive.connections = 4
    let (loop, budget) = (try EventLoop(index: 0), budget)
    self.loop = loop
    group = UpstreamGroup(
      ResolvedGroup(settings: settings, servers: [.init(address: .name("a.test", port: 443), settings: server)]),
      loop: loop, budget: budget)
    group.connector = { [unowned self] _, _ throws(SocketError) in
      var both: [Int32] = [-1, -1]
      let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
      guard socketpair(AF_UNIX, type, 0, &both) == 0 else { throw SocketError("socketpair", errno) }
      peers.append(both[1])
      return try ByteStream(loop: loop, descriptor: both[0], isConnecting: false)
    }
  }

  deinit { for peer in peers { close(peer) } }

  static func trust(
    _ proxy: String = "p:1", user: ProxyCredentials? = nil, header: String = "",
    over connection: UpstreamConnection = .http1, _ negotiation: UpstreamNegotiation? = nil
  ) -> UpstreamTrust {
    var origin = ConnectionOrigin()
    origin.proxy = ConnectProxy(name: proxy, addresses: [.ipv4(address: 1, port: 1)], credentials: user)
    origin.header = Array(header.utf8)
    return UpstreamTrust(context: nil, name: "", connection: connection, origin: origin, negotiation: negotiation)
  }

  /// Begins an attempt over a connection that is open to the proxy.
  func begin(_ trust: UpstreamTrust = Way.trust()) throws -> (witness: Witness, transport: ByteStream) {
    let witness = Witness()
    #expect(group.attempt(witness, trust: trust).failure == nil)
    let session = try #require(witness.session)
    session.transport.begin()
    return (witness, session.transport)
  }

  /// What the proxy has got since the last time.
  func heard() -> String {
    var bytes = [UInt8](repeating: 0, count: 4096)
    let count = recv(peers.last ?? -1, &bytes, bytes.count, 0)
    return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
  }

  func say(_ text: String, _ transport: ByteStream) {
    let bytes = Array(text.utf8)
    #expect(send(peers.last ?? -1, bytes, bytes.count, 0) == bytes.count)
    transport.ready([.input])
  }
}

@Suite struct `Sessions through a proxy` {
  private static let asked = "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n"

  @Test func `open behind the proxy's 200, and say nothing before`() throws {
    let way = try Way()
    let (witness, transport) = try way.begin()
    #expect(way.heard() == Self.asked && !witness.isOpen)
    way.say("HTTP/1.1 200 Connection esta", transport)
    #expect(way.heard() == "" && !witness.isOpen && witness.failure == nil)
    way.say("blished\r\nVia: x\r\n\r\n", transport)
    #expect(witness.isOpen && way.heard() == "")
  }

  @Test func `log in by what the proxy's user is`() throws {
    let way = try Way()
    let user = Array("Basic YTpi".utf8).withUnsafeBytes { ProxyCredentials(SecretBytes(copying: $0)) }
    _ = try way.begin(Way.trust(user: user))
    #expect(way.heard().contains("\r\nProxy-Authorization: Basic YTpi\r\n\r\n"))
  }

  @Test func `tell the upstream alone of the client`() throws {
    let way = try Way()
    let (witness, transport) = try way.begin(Way.trust(header: "PROXY UNKNOWN\r\n"))
    #expect(way.heard() == Self.asked)
    way.say("HTTP/1.1 200 OK\r\n\r\n", transport)
    #expect(witness.isOpen && way.heard() == "PROXY UNKNOWN\r\n")
  }

  @Test func `leave the first byte behind the head to the protocol`() throws {
    let way = try Way()
    let smtp = UpstreamNegotiation(.smtp, goal: .greetingOnly)
    let (witness, transport) = try way.begin(Way.trust(over: .tcp, smtp))
    way.say("HTTP/1.1 200 OK\r\n\r\n220 mail\r\n", transport)
    #expect(witness.isOpen)
    let stream = try #require(witness.session as? TCPUpstreamSession)
    #expect(stream.phase == .open)
    // In HTTP the upstream says nothing before it is asked.
    let (refused, other) = try way.begin()
    way.say("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", other)
    #expect(!refused.isOpen && refused.failure?.description.contains("before a request was made") == true)
  }

  @Test(arguments: [
    ("HTTP/1.1 403 Forbidden\r\n", "it refused CONNECT a.test:443"), ("HTTP/1.1 407 x\r\n", "it asks for credentials"),
    ("SSH-2.0-x\r\n", "no response to CONNECT"),
  ]) func `fail by what the proxy says, and name it`(answer: String, told: String) throws {
    let way = try Way()
    let (witness, transport) = try way.begin()
    way.say(answer, transport)
    let text = witness.failure?.description ?? ""
    #expect(text.contains(told) && text.hasSuffix("through the proxy p:1") && witness.failure?.status == 502)
    #expect(transport.isClosed && way.budget.used == 0)
  }

  @Test func `fail when the proxy leaves or takes too long, over HTTP/2 and TCP too`() throws {
    for connection in [UpstreamConnection.http1, .http2, .tcp] {
      let way = try Way()
      let (left, transport) = try way.begin(Way.trust(over: connection))
      shutdown(way.peers[0], Int32(SHUT_WR))
      transport.ready([.input, .peerEnd])
      #expect(left.failure?.description.contains("it closed the connection") == true, "\(connection)")
      let (late, other) = try way.begin(Way.trust(over: connection))
      other.deadlinePassed()
      #expect(late.failure?.status == 504 && late.failure?.condition == .timeout, "\(connection)")
      #expect(late.failure?.description.hasSuffix("through the proxy p:1") == true)
      #expect(way.budget.used == 0)
    }
  }

  @Test func `are kept for passes with the same proxy and user`() throws {
    let way = try Way()
    let (witness, transport) = try way.begin()
    way.say("HTTP/1.1 200 OK\r\n\r\n", transport)
    let session = try #require(witness.session as? SerialUpstreamSession)
    way.group.keep(session)
    let user = ProxyCredentials(SecretBytes(copying: UnsafeRawBufferPointer(start: nil, count: 0)))
    for other in [
      Way.trust("q:1"), Way.trust(user: user), UpstreamTrust(context: nil, name: ""),
    ] {
      let fresh = Witness()
      _ = way.group.attempt(fresh, trust: other)
      #expect(fresh.session !== session)
    }
    let again = Witness()
    _ = way.group.attempt(again, trust: Way.trust())
    #expect(again.session === session)
  }
}
