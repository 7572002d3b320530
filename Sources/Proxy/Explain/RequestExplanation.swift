package import Bytes
package import Crypto
import Glibc
import HTTP
import Observability
import Patterns
import TLS
package import Transport

/// The request of `sallyport check --explain`.
package struct ExplainedRequest: Sendable {
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

  package init(method: String, usesTLS: Bool, host: String, port: UInt16, target: String, client: SocketAddress) {
    self.method = method
    self.usesTLS = usesTLS
    self.host = host
    self.port = port
    self.target = target
    self.client = client
  }

  fileprivate var isAddress: Bool { SocketAddress(literal: host, port: 0) != nil }

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

  private let request: ExplainedRequest
  private let generation: Generation
  private let shared: SharedState
  private let trace: ExplainTrace

  package init(
    _ request: ExplainedRequest, _ generation: Generation, sharing shared: SharedState, _ trace: ExplainTrace
  ) {
    self.request = request
    self.generation = generation
    self.shared = shared
    self.trace = trace
  }

  package func run() throws(Refusal) {
    let loop: EventLoop
    do { loop = try EventLoop(index: 1) } catch { throw .system("\(error)") }
    let worker = Worker(loop: loop, connections: 16, metrics: Metrics(), shared: shared, trace: trace)
    worker.serve(generation, sockets: []) { _ in }
    var ends: [Int32] = [-1, -1]
    let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
    guard socketpair(AF_UNIX, type, 0, &ends) == 0 else { throw .system("socketpair() failed (\(errno))") }
    defer { close(ends[1]) }
    try withExtendedLifetime(worker) { () throws(Refusal) in
      guard let live = worker.live else { throw .system("there is no generation") }
      let servers = try listener(live)
      try converse(worker, live, servers, ends[0])
    }
  }

  // MARK: The listener

  private func listener(_ live: LiveGeneration) throws(Refusal) -> VirtualServers {
    let onPort = live.listeners.filter { listener in
      if case .socket(let address) = listener.settings.address { address.port == request.port } else { false }
    }
    let matching = onPort.filter { $0.settings.isTLS == request.usesTLS && $0.settings.kind == .http }
    guard
      let chosen = matching.first(where: { address(of: $0)?.host == request.host })
        ?? matching.first(where: { isWildcard($0) }) ?? matching.first
    else {
      let all = live.listeners.map { "\($0.settings.address)\($0.settings.isTLS ? " ssl" : "")" }
      if let tcp = onPort.first(where: { $0.settings.kind == .stream }) {
        throw .noListener("the listener \(tcp.settings.address) is of stream, whose connections carry no requests")
      }
      let other = onPort.isEmpty ? "" : " \(request.usesTLS ? "with" : "without") TLS"
      throw .noListener(
        "no listener has port \(request.port)\(other): there \(all.count == 1 ? "is" : "are") \(all.joined(separator: ", "))"
      )
    }
    let words = [chosen.settings.isTLS ? "ssl" : "", chosen.settings.expectsProxyHeader ? "proxy_protocol" : ""]
    let text = ([chosen.settings.address.description] + words.filter { !$0.isEmpty }).joined(separator: " ")
    let others = matching.count > 1 ? ", one of \(matching.count) with this port" : ""
    trace.add("listener", "\(text)  \(chosen.settings.location)\(others)")
    return chosen
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
    if let tls {
      let name = request.isAddress ? [] : Self.name(request.host)
      trace.add("SNI", name.isEmpty ? "none, because the host is an address" : String(decoding: name, as: UTF8.self))
      let failure = tls.rehearse(
        name, showing: request.certificates, local: rehearsedLocal(servers), peer: request.client)
      if let failure {
        trace.add("handshake", "fails: \(failure)")
        return transport.close(.orderly)
      }
      if let shown = tls.rehearsedCertificate { trace.add("certificate", "\(shown.subject), loaded for this name") }
    }
    let session = ClientSession(
      worker: worker, live: live, servers: servers, transport: transport, tls: tls, peer: request.client, number: 1)
    session.facts.rehearsedLocal = rehearsedLocal(servers)
    session.streamDidOpen()
    if let tls { tell(of: tls) }
    try converse(session, worker)
    session.close()
  }

  /// The address at which the client would have connected.
  private func rehearsedLocal(_ servers: VirtualServers) -> SocketAddress? {
    guard let address = address(of: servers) else { return nil }
    return isWildcard(servers) ? SocketAddress(literal: "127.0.0.1", port: request.port) : address
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
      exchange.beginRefused(stream, server: session.firstServer, error)
    }
    if stream.status == nil, !stream.isOver {
      trace.add("note", "the request waits here for what the explanation does not do")
      stream.exchange?.streamWasCut()
    }
  }

  private static func name(_ host: String) -> [UInt8] {
    var name = host.utf8.map { ASCII.lower($0) }
    if name.last == 0x2E { name.removeLast() }
    return name
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
    case .unverified(let leaf, let reason):
      trace.add("client", "\(leaf.subject): NOT verified, \(reason) (optional_no_ca)")
    case .refused(let leaf, let code, let reason):
      let meaning = OpenSSLMeaning.of(verification: code).map { ": \($0)" } ?? ""
      trace.add("client", "\(leaf.subject): does not verify, \(reason)\(meaning)")
    }
    if tls.asksResponders, case .verified = tls.clientVerdict {
      trace.add("asks", "the OCSP responder about the certificate; taken as good")
    }
    if settings.rejection == .reportOnly { trace.add("note", "a refusal is only reported (ssl_verify_report_only)") }
  }

  private func tellServer(_ session: ClientSession, _ exchange: Exchange) {
    guard let server = session.server(for: exchange) else {
      return trace.add("server", "none: a regular expression of server_name gave up on the Host")
    }
    let host = exchange.head.bytes.readable[exchange.head.host].map { ASCII.lower($0) }
    let name = server.settings.names.map(\.asWritten).first { !$0.isEmpty } ?? "(no name)"
    let reason = Self.reason(server, host, isDefault: server === session.servers.fallback)
    trace.add("server", "\(name)  \(server.settings.location)  \(reason)")
    if server !== session.firstServer {
      trace.add("  SNI", "chose \(session.firstServer.settings.location) for the handshake")
    }
  }

  private static func reason(_ server: LiveServer, _ host: [UInt8], isDefault: Bool) -> String {
    let text = String(decoding: host, as: UTF8.self)
    for name in server.settings.names {
      switch name {
      case .exact(text): return "its server_name is the Host \"\(text)\""
      case .leadingWildcard(let suffix, let matchesBare)
      where text.hasSuffix(suffix) || matchesBare && text == suffix.dropFirst():
        return "its server_name \(name.asWritten) matches the Host \"\(text)\""
      case .trailingWildcard(let prefix) where text.hasPrefix(prefix):
        return "its server_name \(name.asWritten) matches the Host \"\(text)\""
      case .regex(let pattern, _):
        var captures = Captures()
        let outcome = host.withUnsafeBytes {
          pattern.match($0, scratch: RegularExpression.Scratch(), into: &captures)
        }
        if outcome == .match { return "its server_name \(name.asWritten) matches the Host \"\(text)\"" }
      default: break
      }
    }
    return isDefault ? "the listener's default: no server_name is the Host \"\(text)\"" : "that of the SNI"
  }
}
