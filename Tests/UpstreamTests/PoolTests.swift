import Glibc
import HTTP
import Observability
import TLS
import Testing
import Transport

@testable import Upstream

/// Notes which connection it was given.
private final class Probe: AttemptObserver {
  var session: UpstreamSession?
  override func attemptDidBegin(_ stream: UpstreamStream) { session = stream.session }
}

/// A group on a loop that does not turn, whose server nobody can reach: only kept connections serve.
private final class Pool {
  let loop: EventLoop
  let budget = ConnectionBudget(limit: 100)
  let group: UpstreamGroup
  let trust = UpstreamTrust(context: nil, name: "")
  private var peers: [Int32] = []

  init(_ change: (inout KeepaliveSettings) -> Void) throws {
    let place = SourceLocation(file: "", line: 0, column: 0)
    let nowhere = SocketAddress.unix(path: "/nonexistent/socket")
    let server = UpstreamServerSettings(address: .address(nowhere), location: place)
    var settings = UpstreamGroupSettings(name: "up", servers: [server], location: place)
    change(&settings.keepalive)
    loop = try EventLoop(index: 0)
    group = UpstreamGroup(
      ResolvedGroup(settings: settings, servers: [.init(address: nowhere, settings: server)]), loop: loop,
      budget: budget)
  }

  deinit { for peer in peers { close(peer) } }

  /// A connection that is open and has served so many requests.
  func connection(served: Int = 1, trust: UpstreamTrust? = nil) throws -> (SerialUpstreamSession, peer: Int32) {
    var both: [Int32] = [-1, -1]
    let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
    guard socketpair(AF_UNIX, type, 0, &both) == 0 else { throw SocketError("socketpair", errno) }
    peers.append(both[1])
    #expect(budget.take())
    let stream = try ByteStream(loop: loop, descriptor: both[0], isConnecting: false)
    let connection = SerialUpstreamSession(
      transport: stream, tls: nil, server: 0, trust: trust ?? self.trust, group: group)
    let settings = AttemptSettings(timeouts: UpstreamTimeouts(), headLimits: HeadLimits())
    for _ in 0..<served { connection.begin(Probe(), settings, on: ServerTicket(index: 0, serial: 0)) }
    stream.begin()
    // A read that finds nothing: from here on only an edge tells of input.
    var byte: UInt8 = 0
    _ = withUnsafeMutableBytes(of: &byte) { stream.receive(into: $0) }
    return (connection, both[1])
  }

  /// The kept connection that an attempt gets; nil when it would have to dial.
  func kept(trust: UpstreamTrust? = nil) -> UpstreamSession? {
    let probe = Probe()
    let failure = group.attempt(probe, trust: trust ?? self.trust).failure
    if probe.session == nil, case .connect = failure { return nil }
    return probe.session
  }
}

@Suite struct `Kept upstream connections` {
  @Test func `the last one in serves first, and the oldest above keepalive is closed after a second`() throws {
    let pool = try Pool { $0.connections = 2 }
    let connections = try (0..<3).map { _ in try pool.connection().0 }
    for connection in connections { pool.group.keep(connection) }
    #expect(pool.group.closeSurplus(now: pool.loop.now + 999) && pool.group.idleCount == 3)
    #expect(!pool.group.closeSurplus(now: pool.loop.now + 1000))
    #expect(pool.group.idleCount == 2 && connections[0].transport.isClosed && pool.budget.used == 2)
    #expect(pool.kept() === connections[2])
    #expect(pool.kept() === connections[1])
    #expect(pool.kept() == nil)
  }

  @Test func `at most four times keepalive are idle at any moment`() throws {
    let pool = try Pool { $0.connections = 2 }
    let connections = try (0..<10).map { _ in try pool.connection().0 }
    for connection in connections { pool.group.keep(connection) }
    #expect(pool.group.idleCount == 8 && connections.map(\.transport.isClosed).prefix(3) == [true, true, false])
  }

  @Test func `none is kept without keepalive, or beyond its requests or its time`() throws {
    for change: (inout KeepaliveSettings) -> Void in [
      { $0.connections = 0 }, { ($0.connections, $0.requests) = (8, 3) }, { ($0.connections, $0.time) = (8, 0) },
    ] {
      let pool = try Pool(change)
      let (connection, _) = try pool.connection(served: 3)
      pool.group.keep(connection)
      #expect(pool.group.idleCount == 0 && connection.transport.isClosed && pool.budget.used == 0)
    }
    let pool = try Pool { ($0.connections, $0.requests) = (8, 3) }
    try pool.group.keep(pool.connection(served: 2).0)
    #expect(pool.group.idleCount == 1)
  }

  @Test func `a connection never serves under a policy or a name that it was not judged by`() throws {
    let pool = try Pool { $0.connections = 8 }
    let context = try UpstreamTLSContext(
      settings: UpstreamTLSSettings(), material: UpstreamTLSMaterial(policy: .anybody, identity: nil))
    let trusts = [
      pool.trust, UpstreamTrust(context: context, name: "a.test"), UpstreamTrust(context: context, name: "b.test"),
    ]
    for trust in trusts {
      let (connection, _) = try pool.connection(trust: trust)
      pool.group.keep(connection)
      for other in trusts where other !== trust { #expect(pool.kept(trust: other) == nil) }
      #expect(pool.kept(trust: trust) === connection)
    }
    // The same policy and name are the same trust, whoever made it.
    let (connection, _) = try pool.connection(trust: trusts[1])
    pool.group.keep(connection)
    #expect(pool.kept(trust: UpstreamTrust(context: context, name: "a.test")) === connection)
  }

  /// Lets the server answer, with more behind it.
  private func answered(_ pool: Pool, more: String = "") throws -> (SerialUpstreamSession, peer: Int32) {
    let (connection, peer) = try pool.connection()
    let stream = try #require(connection.stream)
    Array("GET".utf8).withUnsafeBytes { stream.send(body: $0) }
    stream.requestDidEnd()
    let answer = Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok\(more)".utf8)
    #expect(send(peer, answer, answer.count, 0) == answer.count)
    connection.transport.ready([.input])
    return (connection, peer)
  }

  @Test func `a connection is kept after a whole answer, but not with bytes behind it`() throws {
    let pool = try Pool { $0.connections = 8 }
    let (connection, _) = try answered(pool)
    #expect(pool.kept() === connection)
    let (poisoned, _) = try answered(pool, more: "HTTP/1.1 200 OK\r\n")
    #expect(pool.kept() == nil && poisoned.transport.isClosed)
  }

  @Test(arguments: [true, false])
  func `a kept connection on which something comes, or that ends, is not used`(bytes: Bool) throws {
    let pool = try Pool { $0.connections = 8 }
    let (connection, peer) = try answered(pool)
    if bytes { #expect(send(peer, [0x21] as [UInt8], 1, 0) == 1) } else { shutdown(peer, Int32(SHUT_WR)) }
    connection.transport.ready(bytes ? [.input] : [.input, .peerEnd])
    #expect(pool.group.idleCount == 0 && connection.transport.isClosed && pool.kept() == nil)
  }

  @Test func `the one that idles longest is given up when somebody needs the room`() throws {
    let pool = try Pool { $0.connections = 8 }
    #expect(pool.group.oldestIdle == nil)
    let connections = try (0..<2).map { _ in try pool.connection().0 }
    for connection in connections { pool.group.keep(connection) }
    #expect(pool.group.oldestIdle != nil)
    pool.group.closeOldestIdle()
    #expect(connections[0].transport.isClosed && !connections[1].transport.isClosed && pool.budget.used == 1)
  }

  @Test func `a group that was closed keeps nothing more`() throws {
    let pool = try Pool { $0.connections = 8 }
    let connections = try (0..<2).map { _ in try pool.connection().0 }
    pool.group.keep(connections[0])
    pool.group.close()
    pool.group.keep(connections[1])
    #expect(pool.group.idleCount == 0 && connections.allSatisfy(\.transport.isClosed) && pool.budget.used == 0)
  }
}
