import Crypto
import Glibc
import HTTP
import Observability
import TLS
import TestSupport
import Testing
import Transport

@testable import Upstream

/// One server block, for clients without certificates.
// @unchecked: nothing is changed once it is made.
private final class OneBlock: ServerChooser, @unchecked Sendable {
  private let block: ServerTLSContext

  init(_ certified: CertifiedKey) throws {
    var settings = ServerTLSSettings()
    settings.verification = .off
    block = try ServerTLSContext(
      settings: settings,
      material: ServerTLSMaterial(certificates: [certified], clientCAs: [], trustedCAs: [], revocations: []),
      sessions: nil, ocsp: OCSPClient(pool: BlockingPool()))
    super.init()
  }

  override var initial: ServerTLSContext? { block }
  override func choose(_ name: [UInt8]) -> ServerTLSContext? { block }
}

private final class Bystander: StreamOwner {}

/// Notes which session it was given.
private final class Probe: AttemptObserver {
  var session: UpstreamSession?
  override func attemptDidBegin(_ stream: UpstreamStream) { session = stream.session }
}

/// An open session over TLS that a group keeps. The loop does not turn: both sides of the handshake are called in turn, and
/// nobody can reach the server by a new connection.
private final class KeptSession {
  let session: SerialUpstreamSession
  private let group: UpstreamGroup
  private let trust: UpstreamTrust
  private let server: TLSStream
  private let bystander = Bystander()

  init(_ certified: CertifiedKey, _ anchors: TrustAnchors) throws {
    let loop = try EventLoop(index: 0), budget = ConnectionBudget(limit: 10)
    let nowhere = SocketAddress.unix(path: "/nonexistent/socket")
    let place = SourceLocation(file: "", line: 0, column: 0)
    let only = UpstreamServerSettings(address: .address(nowhere), location: place)
    var settings = UpstreamGroupSettings(name: "up", servers: [only], location: place)
    settings.keepalive.connections = 4
    group = UpstreamGroup(
      ResolvedGroup(settings: settings, servers: [.init(address: nowhere, settings: only)]), loop: loop, budget: budget)
    var security = UpstreamTLSSettings()
    security.sendsServerName = true
    let context = try UpstreamTLSContext(
      settings: security, material: UpstreamTLSMaterial(policy: .verified(anchors, checksName: true), identity: nil))
    trust = UpstreamTrust(context: context, name: "up.test")
    var both: [Int32] = [-1, -1]
    let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
    guard socketpair(AF_UNIX, type, 0, &both) == 0 else { throw SocketError("socketpair", errno) }
    server = try TLSStream(accepting: both[0], loop: loop, chooser: OneBlock(certified))
    let client = try TLSStream(connecting: both[1], loop: loop, context: context, name: "up.test", address: "pair")
    #expect(budget.take())
    session = SerialUpstreamSession(transport: client, tls: client, server: 0, trust: trust, group: group)
    session.begin(
      Probe(), AttemptSettings(timeouts: UpstreamTimeouts(), headLimits: HeadLimits()),
      on: ServerTicket(index: 0, serial: 0))
    server.owner = bystander
    server.begin()
    for _ in 0..<10 {
      client.ready([.input, .output])
      loop.cork.flush()
      server.ready([.input, .output])
      loop.cork.flush()
    }
    try #require(session.isJudged && !client.isClosed)
    group.keep(session)
  }

  deinit { server.close() }

  /// The session that an attempt gets; nil: it has to connect.
  func taken() -> UpstreamSession? {
    let probe = Probe()
    let failure = group.attempt(probe, trust: trust).failure
    if probe.session == nil, case .connect? = failure { return nil }
    return probe.session
  }
}

@Suite(.timeLimit(.minutes(5))) struct `A kept session whose upstream's judgement ends` {
  private let authority: TestAuthority
  init() throws { authority = try TestAuthority("Upstreams") }

  /// Far enough for a handshake before it.
  private static func soon() -> Int64 { Int64(time(nil)) + 5 }

  private func certified(until end: Int64? = nil) throws -> CertifiedKey {
    var builder = CertificateBuilder(commonName: "up.test", .leaf([.serverAuth]), names: [.dns("up.test")])
    if let end { builder.notAfter = end }
    return try builder.signed(by: authority.root, key: .generate())
  }

  private func anchors(lists: [(begin: Int64, end: Int64)] = []) throws -> TrustAnchors {
    let scene = try Scene()
    defer { scene.end() }
    let loaded = try lists.enumerated().flatMap { number, span in
      var list = RevocationListBuilder(revoking: [], number: number + 1)
      (list.thisUpdate, list.nextUpdate) = (span.begin, span.end)
      return try RevocationList.loadAll(
        MaterialReference(path: scene.write("\(number).pem", text: list.pem(signedBy: authority.root))))
    }
    return try TrustAnchors(.certificates([authority.root.certificate]), revocations: loaded)
  }

  private func pass(_ moment: Int64) async throws {
    while Int64(time(nil)) <= moment { try await Task.sleep(for: .milliseconds(100)) }
  }

  @Test func `serves before, and is closed once the certificate has ended`() async throws {
    let end = Self.soon(), kept = try KeptSession(certified(until: end), anchors())
    #expect(kept.session.judgementEnd == end && kept.session.isStillTrusted)
    try await pass(end)
    #expect(!kept.session.isStillTrusted)
    #expect(kept.taken() == nil && kept.session.transport.isClosed)
  }

  @Test func `serves until then`() throws {
    let kept = try KeptSession(certified(until: Int64(time(nil)) + 1000), anchors())
    #expect(kept.taken() === kept.session && !kept.session.transport.isClosed)
  }

  @Test func `is closed once the list has ended by which it was judged`() async throws {
    let end = Self.soon(), kept = try KeptSession(certified(), anchors(lists: [(end - 3600, end)]))
    #expect(kept.session.judgementEnd == end)
    try await pass(end)
    #expect(kept.taken() == nil && kept.session.transport.isClosed)
  }

  @Test func `serves on where it is judged well again by a list that has begun`() async throws {
    let begin = Self.soon(), lists = [(begin - 3600, begin + 5000), (begin, begin + 9000)]
    let kept = try KeptSession(certified(), anchors(lists: lists))
    #expect(kept.session.judgementEnd == begin)
    try await pass(begin)
    #expect(kept.taken() === kept.session && kept.session.judgementEnd > begin)
  }

  @Test func `is closed where a list that has begun revokes its certificate`() async throws {
    let begin = Self.soon(), certified = try certified(), scene = try Scene()
    defer { scene.end() }
    var first = RevocationListBuilder(revoking: [], number: 1)
    (first.thisUpdate, first.nextUpdate) = (begin - 3600, begin + 5000)
    var second = RevocationListBuilder(revoking: [certified.certificate], number: 2)
    (second.thisUpdate, second.nextUpdate) = (begin, begin + 9000)
    let lists = try [first, second].enumerated().flatMap { number, list in
      try RevocationList.loadAll(
        MaterialReference(path: scene.write("\(number).pem", text: list.pem(signedBy: authority.root))))
    }
    let kept = try KeptSession(
      certified, TrustAnchors(.certificates([authority.root.certificate]), revocations: lists))
    try await pass(begin)
    #expect(kept.taken() == nil && kept.session.transport.isClosed)
  }
}
