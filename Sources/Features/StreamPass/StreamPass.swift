import Forward
import Glibc
import Language
import Observability
import TLS
import Traffic
import Transport

/// pass in stream (nginx: ngx_stream_pass_module): gives the connection to another listener of this configuration, as if
/// that one had accepted it.
struct StreamPass: ContentFeature {
  private let target: Template
  @NotCompared private var location: SourceLocation

  static let chapter = Chapter.stream
  static let kinds: Set<TrafficKind> = [.stream]

  static let directives: [DirectiveEntry] = [
    .local(
      "pass", .streamServer, .words(1...1, "ADDRESS:PORT | unix:PATH"),
      "Gives the connection to another `listen` of this configuration, of `http` too, as if that one had accepted it: by the"
        + " name in a ClientHello, one port can serve HTTP and others. It can have variables. The client stays who it was at"
        + " the first listener: a unix socket that it passes to makes it no user of this machine. The access log has the"
        + " connection once, as the other listener's.",
      example: "pass 127.0.0.1:8443;", trust: .told)
  ]

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> StreamPass? {
    guard let line = line(in: level.scope) else { return nil }
    let template = builder.template(line, 0)
    if let text = template.constant, ListenAddress(passing: text) == nil {
      builder.error(
        line.place(0), "invalid address \"\(line.text(0))\" in \"pass\" directive",
        hint: "an address of another listen: 127.0.0.1:8443, [::1]:8443 or unix:PATH")
    }
    return StreamPass(target: template, location: line.location)
  }

  /// Refuses lines that lead clients of TCP to an API that nothing but its unix sockets guards: it would answer 403 to all of
  /// them. What a line with variables leads to is known only to the connection, and then the API refuses it.
  static func judge(
    _ listeners: [ListenerSettings], _ servers: [ServerSettings], _ builder: inout SettingsBuilder
  ) {
    // A socket of systemd may be one of TCP.
    var open = listeners.indices.filter { listeners[$0].kind == .stream && !listeners[$0].address.isUnixSocket }
    var seen = Set(open)
    while let index = open.popLast() {
      for server in listeners[index].servers where servers.indices.contains(server) {
        guard let pass = servers[server].root[StreamPass.self], let text = pass.target.constant,
          let target = ListenAddress(passing: text).flatMap({ listeners.index(of: $0) })
        else { continue }
        switch listeners[target].kind {
        case .stream: if seen.insert(target).inserted { open.append(target) }
        case .http:
          let guarded = listeners[target].servers.first {
            servers.indices.contains($0)
              && servers[$0].root.withNested.contains { $0.features.contains(where: \.isGuardedBySocket) }
          }
          guard let guarded else { continue }
          builder.diagnostics.append(
            Diagnostic(
              .error, at: pass.location,
              "\"pass\" leads clients of TCP to an \"api write=on\" that only the socket \(listeners[target].address) guards",
              hint:
                "auth_basic, allow and deny, or a certificate at the API of the server at \(servers[guarded].location)")
          )
        }
      }
    }
  }

  var ways: LocationWays {
    LocationWays(leads: [RequestLead(.content, to: .listener(target), "pass \(target.asWritten)", at: location)])
  }

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) { parts.content = PassedConnection(target.compiled) }

  func words(_ http: HTTPSettings) -> String { "passes to the listener \(target.text(http.slotNames))" }

  static func compare(_ old: Self?, _ new: Self?, _ names: ComparedNames, _ found: inout TrustChanges) {
    guard let old, let new, old.target.text(names.old) != new.target.text(names.new) else { return }
    found.other("connections pass to the listener \(new.target.text(names.new)) (was \(old.target.text(names.old)))")
  }
}

extension ListenAddress {
  fileprivate var isUnixSocket: Bool { if case .socket(.unix) = self { true } else { false } }

  fileprivate init?(passing text: [UInt8]) {
    let text = String(decoding: text, as: UTF8.self)
    guard let addresses = try? SettingsBuilder.listenAddresses(text, defaultPort: nil), addresses.count == 1,
      let address = addresses.first
    else { return nil }
    self = address
  }
}

private final class PassedConnection: LiveContent {
  private let target: CompiledTemplate

  init(_ target: CompiledTemplate) { self.target = target }

  override func handler(for worker: Worker) -> ContentHandler? { PassHandler(target) }

  override func explained(_ session: StreamSession) -> (words: String, result: SessionResult)? {
    let text = target.bytes(session)
    guard let address = ListenAddress(passing: text), session.live.listenerIndex(at: address) != nil else {
      return ("no listener has the address \"\(LogEscape.text(text))\"", .error)
    }
    return ("passes to the listener \(address)", .passed)
  }
}

private final class PassHandler: ContentHandler {
  /// Listeners that pass to each other in a circle would otherwise never end.
  private static let limit = 8

  private let target: CompiledTemplate

  init(_ target: CompiledTemplate) { self.target = target }

  override func start(_ running: StreamSession) {
    let text = target.bytes(running)
    let (session, worker) = (running.session, running.worker)
    // The worker's listeners, not the session's: after a reload, the same index may be another listener.
    guard !running.variables.isBroken, let tcp = session.tcp, let address = ListenAddress(passing: text),
      let live = worker.live, let index = live.listenerIndex(at: address)
    else { return refuse(running, "no listener has the address \"\(LogEscape.text(text))\"") }
    guard session.passes < Self.limit else {
      return refuse(running, "the connection has passed \(Self.limit) listeners, the next would be \(address)")
    }
    let listener = live.listeners[index].settings
    if session.passedClient == nil {
      // The bytes that were looked at are still in the socket.
      let copy = fcntl(session.transport.descriptor, F_DUPFD_CLOEXEC, 0)
      guard copy >= 0 else { return refuse(running, "\(SocketError("fcntl", errno))") }
      let peer = session.facts.peer
      running.end(.passed)
      _ = worker.accepted(copy, peer, listener: index, passes: session.passes + 1)
      return
    }
    guard !listener.isTLS, !listener.expectsProxyHeader, !tcp.hasPreread else {
      return refuse(running, "the connection has TLS already, and the listener \(address) awaits something else")
    }
    let (transport, peer, client) = (session.transport, session.facts.peer, session.passedClient)
    tcp.leaveTransport()
    running.end(.passed)
    worker.takeOver(transport, peer, listener: index, passes: session.passes + 1, client)
  }

  private func refuse(_ running: StreamSession, _ reason: String) {
    running.log(.error, "\(reason) in \"pass\"")
    running.end(.error)
  }
}
