import Bytes
package import Crypto
import Glibc
import HTTP
import Negotiation
import Observability
import Patterns
package import TLS
package import Transport

/// The request of `sallyport check --explain`, or the connection to a server of `stream`.
package struct ExplainedRequest: Sendable {
  /// `stream`: there is no request. Whether it has TLS is a question of the listener.
  package var kind = TrafficKind.http
  package var method: String
  package var usesTLS: Bool
  /// Without brackets.
  package var host: String
  package var port: UInt16
  /// The request target, in origin form.
  package var target: String
  /// Lines `Name: value`; a Host among them replaces that of the URL.
  package var fields: [String] = []
  /// What the client shows in its handshake, leaf first.
  package var certificates: [Certificate] = []
  /// The address of the client.
  package var client: SocketAddress
  /// What a PROXY header says the client's address is; nil: there is no header.
  package var proxied: SocketAddress?
  /// The listener that the client connects to, by its place among those of the configuration; nil: the one of the port.
  package var listener: Int?
  /// The name that the client asks for in its handshake; empty: none; nil: that of the host.
  package var serverName: String?
  /// The only version of TLS that the client speaks; nil: all of them.
  package var version: TLSVersions?

  package init(method: String, usesTLS: Bool, host: String, port: UInt16, target: String, client: SocketAddress) {
    self.method = method
    self.usesTLS = usesTLS
    self.host = host
    self.port = port
    self.target = target
    self.client = client
  }

  /// A connection to a server of `stream`. `client`: the address of the client.
  package init(connectionTo host: String, port: UInt16, client: SocketAddress) {
    self.init(method: "", usesTLS: false, host: host, port: port, target: "", client: client)
    kind = .stream
  }

  /// The name of the handshake in lower case; empty: none.
  fileprivate var handshakeName: [UInt8] {
    let name = serverName ?? (SocketAddress(literal: host, port: 0) != nil ? "" : host)
    var bytes = name.utf8.map { ASCII.lower($0) }
    if bytes.last == 0x2E { bytes.removeLast() }
    return bytes
  }

  /// The head as the client would send it.
  fileprivate var head: String {
    let standard: UInt16 = usesTLS ? 443 : 80
    let name = host.contains(":") ? "[\(host)]" : host
    let hasHost = fields.contains { $0.lowercased().hasPrefix("host:") }
    let lines =
      ["\(method) \(target) HTTP/1.1"] + (hasHost ? [] : ["Host: \(name)\(port == standard ? "" : ":\(port)")"])
      + fields
    return lines.map { $0 + "\r\n" }.joined() + "\r\n"
  }
}

/// Runs one request through the objects that serve requests, with a client that exists in memory only.
///
/// The handshake is stood in for (`TLSStream.rehearse`), steps that would ask somebody say what they would ask, and
/// contents say what they would do. All else is the code that serves: it can't say otherwise than the daemon acts.
package struct RequestExplanation {
  package enum Refusal: Error, Sendable {
    case noListener(String)
    case malformed(String)
    case system(String)
  }

  /// The worker that serves a generation to clients in memory. It may serve any number of them, one after the other.
  package final class Stage {
    fileprivate let worker: Worker
    package let live: LiveGeneration
    fileprivate let trace: ExplainTrace

    package init(_ generation: Generation, sharing shared: SharedState, _ trace: ExplainTrace) throws(Refusal) {
      let loop: EventLoop
      do { loop = try EventLoop(index: 1) } catch { throw .system("\(error)") }
      worker = Worker(loop: loop, connections: 16, metrics: Metrics(), shared: shared, trace: trace)
      worker.serve(generation, sockets: []) { _ in }
      guard let live = worker.live else { throw .system("there is no generation") }
      self.live = live
      self.trace = trace
    }

    deinit { worker.loop.abandon() }

    /// Runs what the last client has left to be done.
    fileprivate func settle() {
      worker.loop.wakeUp()
      worker.loop.cork.flush()
    }
  }

  private let request: ExplainedRequest
  private let stage: Stage
  private var trace: ExplainTrace { stage.trace }

  package init(_ request: ExplainedRequest, on stage: Stage) {
    self.request = request
    self.stage = stage
  }

  package func run() throws(Refusal) {
    var ends: [Int32] = [-1, -1]
    let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
    guard socketpair(AF_UNIX, type, 0, &ends) == 0 else { throw .system("socketpair() failed (\(errno))") }
    defer {
      close(ends[1])
      stage.settle()
    }
    do throws(Refusal) {
      let servers = try listener(stage.live)
      try converse(stage.worker, stage.live, servers, ends[0])
    } catch {
      // A stream owns the other end, once there is one.
      if case .noListener = error { close(ends[0]) }
      throw error
    }
  }

  // MARK: The listener

  private func listener(_ live: LiveGeneration) throws(Refusal) -> VirtualServers {
    if let index = request.listener {
      guard live.listeners.indices.contains(index) else { throw .noListener("there is no listener \(index)") }
      let chosen = live.listeners[index]
      tell(chosen, others: "")
      return chosen
    }
    let onPort = live.listeners.filter { listener in
      if case .socket(let address) = listener.settings.address { address.port == request.port } else { false }
    }
    let ofKind = onPort.filter { $0.settings.kind == request.kind }
    let matching = ofKind.filter { request.kind == .stream || $0.settings.isTLS == request.usesTLS }
    guard
      let chosen = matching.first(where: { address(of: $0)?.host == request.host })
        ?? matching.first(where: { isWildcard($0) }) ?? matching.first
    else {
      let all = live.listeners.map(Self.words)
      let other: String
      if ofKind.isEmpty, !onPort.isEmpty || request.kind == .stream {
        other = " in \(request.kind == .http ? "http" : "stream")"
      } else {
        other = onPort.isEmpty ? "" : " \(request.usesTLS ? "with" : "without") TLS"
      }
      throw .noListener(
        "no listener has port \(request.port)\(other): there \(all.count == 1 ? "is" : "are") \(all.joined(separator: ", "))"
      )
    }
    tell(chosen, others: matching.count > 1 ? ", one of \(matching.count) with this port" : "")
    return chosen
  }

  private func tell(_ chosen: VirtualServers, others: String) {
    let settings = chosen.settings
    let words = [settings.isTLS ? "ssl" : "", settings.expectsProxyHeader ? "proxy_protocol" : ""]
    let text = ([settings.address.description] + words.filter { !$0.isEmpty }).joined(separator: " ")
    trace.add("listener", "\(text)  \(settings.location)\(others)", .listener(settings))
  }

  private static func words(_ listener: VirtualServers) -> String {
    let settings = listener.settings
    return "\(settings.address)\(settings.isTLS ? " ssl" : "")\(settings.kind == .stream ? " (stream)" : "")"
  }

  private func address(of servers: VirtualServers) -> SocketAddress? {
    if case .socket(let address) = servers.settings.address { address } else { nil }
  }

  private func isWildcard(_ servers: VirtualServers) -> Bool {
    switch address(of: servers) {
    case .ipv4(0, _)?, .ipv6(0, 0, _)?: true
    default: false
    }
  }

  // MARK: The connection

  private func converse(
    _ worker: Worker, _ live: LiveGeneration, _ servers: VirtualServers, _ descriptor: Int32
  ) throws(Refusal) {
    let transport: ByteStream
    var tls: TLSStream?
    do throws(SocketError) {
      if servers.settings.isTLS {
        let stream = try TLSStream(accepting: descriptor, loop: worker.loop, chooser: servers)
        transport = stream
        tls = stream
      } else {
        transport = try ByteStream(loop: worker.loop, descriptor: descriptor, isConnecting: false)
      }
    } catch {
      throw .system("\(error)")
    }
    if tls == nil, !request.certificates.isEmpty {
      throw .malformed("--cert: this listener has no TLS, and clients show certificates over TLS only")
    }
    if request.kind == .stream { return rehearse(transport, tls, worker, live, servers) }
    if let tls, shakeHands(tls, servers) != nil { return transport.close(.orderly) }
    let session = ClientSession(
      worker: worker, live: live, servers: servers, transport: transport, tls: tls, peer: request.client, number: 1)
    session.facts.rehearsedLocal = rehearsedLocal(servers)
    session.facts.proxyHeader = proxyHeader(servers)
    session.streamDidOpen()
    defer { session.close() }
    if let tls { tell(of: tls) }
    try converse(session, worker)
  }

  /// The name that the client asks for; empty: none.
  private var clientName: [UInt8] { request.handshakeName }

  /// Stands in for the handshake. Returns why it fails; nil if it succeeds.
  private func shakeHands(_ tls: TLSStream, _ servers: VirtualServers) -> HandshakeCause? {
    let name = clientName
    trace.add("SNI", name.isEmpty ? "none, because the host is an address" : String(decoding: name, as: UTF8.self))
    if let version = request.version, let versions = servers.choose(name)?.settings.versions,
      versions.isDisjoint(with: version)
    {
      trace.add(
        "handshake", "fails: the server block speaks no version of TLS that the client does (ssl_protocols)",
        .handshake(.version))
      return .version
    }
    let failure = tls.rehearse(
      name, showing: request.certificates, local: rehearsedLocal(servers), peer: request.client)
    if let failure {
      trace.add("handshake", "fails: \(failure.reason)", .handshake(failure.cause))
    } else if let shown = tls.rehearsedCertificate {
      trace.add("certificate", "\(shown.subject), loaded for this name")
    }
    return failure?.cause
  }

  // MARK: A session of `stream`

  private func rehearse(
    _ transport: ByteStream, _ tls: TLSStream?, _ worker: Worker, _ live: LiveGeneration, _ servers: VirtualServers
  ) {
    let session = ClientSession(
      worker: worker, live: live, servers: servers, transport: transport, tls: tls, peer: request.client, number: 1)
    session.facts.rehearsedLocal = rehearsedLocal(servers)
    session.facts.proxyHeader = proxyHeader(servers)
    tellServer(servers.fallback, servers.hasOnlyOne ? "the listener's only one" : "the listener's default")
    let result = session.rehearse {
      trace.add("ssl_preread", "the ClientHello asks for \(clientName.isEmpty ? "no name" : request.host)")
      if case .found(let found) = servers.find(clientName) { tellChoice(found.server, servers) }
      return PrereadFacts(serverName: clientName)
    } handshake: {
      tls.flatMap { rehearseTLS($0, servers) }
    }
    if let result {
      trace.add("result", "\(result.rawValue): \(result.words)", .result(result))
    } else {
      trace.add("note", "the connection waits here for what the explanation does not do", .waits)
    }
    session.cut()
    if !session.isClosed { session.close() }
  }

  private func rehearseTLS(_ tls: TLSStream, _ servers: VirtualServers) -> SessionResult? {
    if let asked = servers.fallback.settings.stream?.negotiation {
      trace.add("starttls", "the client asks for TLS in the words of \(asked.rawValue)")
    }
    if let cause = shakeHands(tls, servers) { return SessionResult(handshake: cause) }
    tell(of: tls)
    if let context = tls.serverContext, let server = servers.server(of: context) { tellChoice(server, servers) }
    return nil
  }

  /// Tells of the server block that a name has chosen, if it is another one than the listener's default.
  private func tellChoice(_ server: LiveServer, _ servers: VirtualServers) {
    guard server !== servers.fallback else { return }
    tellServer(server, Self.reason(server, clientName, "name", isDefault: false))
  }

  private func tellServer(_ server: LiveServer, _ reason: String) {
    let name = server.settings.names.map(\.asWritten).first { !$0.isEmpty } ?? "(no name)"
    trace.add("server", "\(name)  \(server.settings.location)  \(reason)", .server(server.settings))
  }

  /// The address at which the client would have connected.
  private func rehearsedLocal(_ servers: VirtualServers) -> SocketAddress? {
    guard let address = address(of: servers) else { return nil }
    return isWildcard(servers) ? SocketAddress(literal: "127.0.0.1", port: request.port) : address
  }

  private func proxyHeader(_ servers: VirtualServers) -> ProxyHeader? {
    guard servers.settings.expectsProxyHeader, let source = request.proxied else { return nil }
    return ProxyHeader(source: source, destination: rehearsedLocal(servers) ?? source)
  }

  private func converse(_ session: ClientSession, _ worker: Worker) throws(Refusal) {
    let exchange = worker.takeExchange()
    let head = Array(request.head.utf8)
    var parser = HeadParser()
    let outcome = head.withUnsafeBytes {
      parser.request($0, limits: session.firstServer.headLimits, into: exchange.head)
    }
    let stream = RehearsedStream(session, trace)
    session.requests += 1
    stream.requestNumber = 1
    stream.exchange = exchange
    switch outcome {
    case .complete:
      tellServer(session, exchange)
      exchange.begin(stream)
    case .incomplete: throw Refusal.malformed("the request has no end")
    case .failed(let error):
      trace.add("note", "the request is refused: \(error)")
      exchange.beginRefused(stream, error)
    }
    if stream.status == nil, !stream.isOver {
      trace.add("note", "the request waits here for what the explanation does not do", .waits)
      stream.exchange?.streamWasCut()
    }
  }

  // MARK: Words

  private func tell(of tls: TLSStream) {
    guard let settings = tls.serverContext?.settings else { return }
    switch tls.clientVerdict {
    case .absent:
      let asked = settings.verification == .off ? "is not asked for a certificate" : "shows no certificate"
      trace.add("client", "\(asked) (ssl_verify_client \(settings.verification.rawValue))")
    case .verified(let chain):
      let anchor = tls.clientAnchor.map { "by the CA \($0.subject)" } ?? "as a trust anchor itself"
      trace.add("client", "\(chain.leaf.subject): verified \(anchor)")
    case .pinned(let leaf):
      trace.add(
        "client",
        "\(Pin.spelling(publicKeyDigest: leaf.spkiSHA256)): pinned (ssl_client_pin); its names count for nothing")
    case .unverified(let leaf, let reason):
      trace.add("client", "\(leaf.subject): NOT verified, \(reason) (optional_no_ca)")
    case .refused(let leaf, let code, let reason, let culprit):
      let meaning = OpenSSLMeaning.of(verification: code).map { ": \($0)" } ?? ""
      trace.add("client", "\(leaf.subject): does not verify, \(reason)\(meaning)\(culprit?.words ?? "")")
    }
    if tls.asksResponders, case .verified = tls.clientVerdict {
      trace.asks("the OCSP responder about the certificate; taken as good")
    }
    if settings.rejection == .reportOnly { trace.add("note", "a refusal is only reported (ssl_verify_report_only)") }
  }

  private func tellServer(_ session: ClientSession, _ exchange: Exchange) {
    guard let server = session.server(for: exchange) else {
      return trace.add("server", "none: a regular expression of server_name gave up on the Host")
    }
    let host = exchange.head.bytes.readable[exchange.head.host].map { ASCII.lower($0) }
    tellServer(server, Self.reason(server, host, "Host", isDefault: server === session.servers.fallback))
    if server !== session.firstServer {
      trace.add("  SNI", "chose \(session.firstServer.settings.location) for the handshake")
    }
  }

  /// `what`: what has chosen the server block.
  private static func reason(_ server: LiveServer, _ host: [UInt8], _ what: String, isDefault: Bool) -> String {
    let text = String(decoding: host, as: UTF8.self)
    for name in server.settings.names {
      switch name {
      case .exact(text): return "its server_name is the \(what) \"\(text)\""
      case .leadingWildcard(let suffix, let matchesBare)
      where text.hasSuffix(suffix) || matchesBare && text == suffix.dropFirst():
        return "its server_name \(name.asWritten) matches the \(what) \"\(text)\""
      case .trailingWildcard(let prefix) where text.hasPrefix(prefix):
        return "its server_name \(name.asWritten) matches the \(what) \"\(text)\""
      case .regex(let pattern, _):
        var captures = Captures()
        let outcome = host.withUnsafeBytes {
          pattern.match($0, scratch: RegularExpression.Scratch(), into: &captures)
        }
        if outcome == .match { return "its server_name \(name.asWritten) matches the \(what) \"\(text)\"" }
      default: break
      }
    }
    return isDefault ? "the listener's default: no server_name is the \(what) \"\(text)\"" : "that of the SNI"
  }
}
