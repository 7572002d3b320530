import Bytes
import Configuration
import Crypto
import Enrolment
import Envelope
@testable import Features
@testable import Forward
import Glibc
import HTTP
import Language
@testable import Loading
import Observability
import Patterns
import TestSupport
import Testing
@testable import Traffic
import Transport
import Upstream
import UpstreamAuth

/// A worker that serves a configuration on a loop that never runs: all events happen within the test's own calls.
final class Rig {
  let loop: EventLoop
  let worker: Worker
  let live: LiveGeneration
  let logs = LogFiles()

  /// Creates a rig. `http`: the contents of the http block, without files. The rig never listens. `users`: the contents
  /// of every `proxy_auth_user_file`. Every `message_envelope_key` is `Rig.envelopeKey`. An `error_log` of `http` that
  /// names a file gets its lines at once; without one, the error log goes nowhere.
  convenience init(
    _ http: String, accessLog: String = "off", users: String = "* al:secret\n", replays: ReplayGuard? = nil,
    features: FeatureList = Features.all
  ) throws {
    try self.init(
      text: "events {} http { access_log \(accessLog); \(http) }", users: users, replays: replays, features: features)
  }

  /// What is wrong with the files that the configuration names, as far as features load them.
  let faults: [Diagnostic]

  /// `text`: a whole configuration.
  init(
    text: String, users: String = "", replays: ReplayGuard? = nil, features: FeatureList = Features.all
  ) throws {
    let (settings, diagnostics) = Configuration.load(
      bytes: Array(text.utf8), fileName: "/etc/test.conf", files: .disk, by: features.directives)
    let errors = diagnostics.filter { $0.severity == .error }.map(\.description)
    let loaded = try #require(settings, "\(errors)").http
    let groups = loaded.groups.map { group in
      ResolvedGroup(
        settings: group,
        servers: group.servers.map { server in
          // The test never connects to this address.
          .init(address: .ipv4(address: 0x7F00_0001, port: 9), settings: server)
        })
    }
    let opened = OpenLogs([], loaded, in: logs)
    let errorLogs = opened.errorLogs.filter { lines, _ in lines.contains { $0.destination != .stderr } }
    let shared = SharedState(features: features)
    var loader = MaterialLoader(loaded.fileUses, from: shared.materialSources)
    var parts = features.load(loaded, sharing: shared, &loader)
    faults = loader.diagnostics
    parts[EnvelopeMaterial.self].envelopes = try Self.envelopes(loaded, replays)
    parts[UpstreamUsers.self].files = try Self.userFiles(loaded, users)
    let generation = Generation(
      number: 1, http: loaded, serverContexts: loaded.servers.map { _ in nil }, upstreamContexts: [:], groups: groups,
      errorLog: ErrorLog([]), errorLogs: errorLogs, accessLogs: opened.accessLogs,
      parts: parts)
    loop = try EventLoop(index: 0)
    worker = Worker(loop: loop, connections: 16, metrics: Metrics(), shared: shared)
    worker.serve(generation, sockets: []) { error in Issue.record("\(error)") }
    live = try #require(worker.live)
    script()
  }

  /// Else the loop would keep itself by those whose deadlines it has, and the process would run out of descriptors.
  deinit { loop.abandon() }

  /// Writes the lines of access logs, and waits for that.
  func flushLogs() {
    worker.flushLogs()
    logs.drain(within: 5000)
  }

  static let envelopeKey = [UInt8](repeating: 7, count: 32)

  /// Creates the envelope codec of the configuration. Tests also use it to seal as the client.
  static func envelope(_ suite: EnvelopeSuite, _ replays: ReplayGuard? = nil) throws -> MessageEnvelope {
    let key = envelopeKey.withUnsafeBytes { SecretBytes(copying: $0) }
    let pair = try #require(EnvelopeKeys.Pair(suite, cipherKey: key, macKey: nil))
    return MessageEnvelope(EnvelopeKeys(suite, current: pair), replays: replays, maxSize: 1 << 20)
  }

  private static func envelopes(
    _ http: HTTPSettings, _ replays: ReplayGuard?
  ) throws -> [EnvelopeSettings: MessageEnvelope] {
    var made: [EnvelopeSettings: MessageEnvelope] = [:]
    for case let pass? in http.servers.flatMap({ [$0.root] + $0.root.locations }).map({ $0[UpstreamPass.self] }) {
      if let settings = pass[EnvelopeSettings.self] { made[settings] = try envelope(settings.suite, replays) }
    }
    return made
  }

  private static func userFiles(_ http: HTTPSettings, _ text: String) throws -> [MaterialReference: UserFile] {
    var made: [MaterialReference: UserFile] = [:]
    for case let pass? in http.servers.flatMap({ [$0.root] + $0.root.locations }).map({ $0[UpstreamPass.self] }) {
      guard let users = pass[UpstreamAuthSettings.self]?.users else { continue }
      made[users] = try Array(text.utf8).withUnsafeBytes { try UserFile(parsing: $0, users) }
    }
    return made
  }

  /// Creates a client's session. The caller closes the returned peer descriptor.
  func connect(
    listener: Int = 0, number: UInt64 = 7, from client: SocketAddress = Rig.client
  ) throws -> (session: ClientSession, peer: Int32) {
    var both: [Int32] = [-1, -1]
    let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
    guard socketpair(AF_UNIX, type, 0, &both) == 0 else { throw SocketError("socketpair", errno) }
    let transport = try ByteStream(loop: loop, descriptor: both[0], isConnecting: false)
    return (session(over: transport, listener: listener, number: number, from: client), both[1])
  }

  static let client = SocketAddress.ipv4(address: 0xC000_0201, port: 4711)

  private func session(
    over transport: ByteStream, listener: Int = 0, number: UInt64 = 7, from client: SocketAddress = Rig.client
  ) -> ClientSession {
    // A test may have the worker serve another generation by now.
    let live = worker.live ?? live
    return ClientSession(
      worker: worker, live: live, servers: live.listeners[listener], transport: transport, tls: nil, peer: client,
      number: number)
  }

  /// Returns the response to a client that sends `request` and then ends. For requests that need no upstream.
  func answer(_ request: String) throws -> String { try answer(Array(request.utf8)) }

  func answer(_ bytes: [UInt8]) throws -> String {
    let (session, peer) = try connect()
    defer { close(peer) }
    session.begin()
    #expect(send(peer, bytes, bytes.count, 0) == bytes.count)
    shutdown(peer, Int32(SHUT_WR))
    session.transport.ready([.input, .peerEnd])
    loop.cork.flush()
    var answer = [UInt8](repeating: 0, count: 65_536)
    let count = recv(peer, &answer, answer.count, 0)
    // Also an exchange that still waits ends with its session.
    session.cut()
    return String(decoding: answer.prefix(max(0, count)), as: UTF8.self)
  }

  // MARK: In memory, without a socket

  /// Starts a request of a client in memory, and runs it until it must wait. `body`: the pieces of the body. The
  /// last piece ends the body unless more is to come.
  @discardableResult
  func ask(_ lines: String..., body: [String] = [], isWhole: Bool = true) throws -> MemoryStream {
    try ask(lines, body: body, isWhole: isWhole)
  }

  func ask(_ lines: [String], body: [String] = [], isWhole: Bool = true) throws -> MemoryStream {
    let transport = ScriptedUpstream(0, loop)
    let session = session(over: transport)
    session.begin()
    let stream = MemoryStream(session, body: body, isWhole: isWhole)
    let exchange = worker.takeExchange()
    let head = lines.map { $0 + "\r\n" }.joined() + "\r\n"
    var parser = HeadParser()
    let outcome = head.utf8.withContiguousStorageIfAvailable {
      parser.request(UnsafeRawBufferPointer($0), limits: session.firstServer.headLimits, into: exchange.head)
    }
    guard case .complete = outcome else { throw NoHead() }
    session.requests += 1
    stream.exchange = exchange
    exchange.begin(stream)
    loop.cork.flush()
    return stream
  }

  /// Creates a client that speaks HTTP/1 over a transport in memory.
  func connection() throws -> (transport: ScriptedUpstream, connection: HTTP1Connection) {
    let transport = ScriptedUpstream(0, loop)
    let session = session(over: transport)
    // The connection's stream retains the session.
    session.begin()
    return (transport, try #require(session.connection as? HTTP1Connection))
  }

  /// The transports that the proxy opened to upstreams, in order.
  private(set) var upstreams: [ScriptedUpstream] = []
  var upstream: ScriptedUpstream { get throws { try #require(upstreams.last) } }

  private func script() {
    let connector: UpstreamGroup.Connector = { [unowned self] server, _ in
      let upstream = ScriptedUpstream(server, loop)
      upstreams.append(upstream)
      return upstream
    }
    guard let groups = live[LiveGroups.self] else { return }
    for group in groups.all { group.connector = connector }
    groups.http.connector = connector
    groups.stream.connector = connector
  }

  /// Returns what the upstream gets for a request: head and body.
  func request(_ lines: String..., body: [String] = []) throws -> String {
    try request(lines, body: body)
  }

  private func request(_ lines: [String], body: [String]) throws -> String {
    _ = try ask(lines, body: body)
    let upstream = try upstream
    upstream.open()
    return upstream.sent
  }

  /// Returns the lines of the head that the upstream gets.
  func forwarded(_ lines: String...) throws -> [String] {
    try request(lines, body: []).split(separator: "\r\n").map(String.init)
  }

  struct NoHead: Error {}
}

extension Rig {
  /// Runs what threads of the pool posted, until `isSo`.
  func turn(until what: String, _ isSo: () throws -> Bool) async throws {
    for _ in 0..<10_000 {
      loop.wakeUp()
      loop.cork.flush()
      if try isSo() { return }
      try await Task.sleep(for: .milliseconds(1))
    }
    Issue.record("not \(what)")
  }
}
