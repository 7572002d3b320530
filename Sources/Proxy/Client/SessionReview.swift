import Bytes
import Glibc
import HTTP
import Identity
import Patterns
import TLS
import Transport

/// Why a request in progress was cut after a reload.
public enum RevokedRequest: String, CaseIterable, Sendable {
  /// The client's certificate doesn't verify any more: it was revoked, or its CA was removed.
  case certificate
  /// `ssl_client_allow` and `ssl_client_deny`, or the client policy of the Host's server block.
  case rule
  /// No `listen` of the new configuration leads to a server block with the name that the client's handshake asked for.
  case listener
}

/// What the configuration that was loaded last decides on a client whose requests are in progress. A tunnel, an event
/// stream or a download can last for days, so none of them may go on for a client that a new request would be refused.
enum SessionReview {
  struct Refusal {
    let cause: RevokedRequest
    /// For the error log.
    let reason: String
    let mode: RevokedConnections
  }

  case kept
  /// No request of the client may go on.
  case refused(Refusal)
  /// These exchanges may not go on.
  case denied([(exchange: Exchange, refusal: Refusal)])

  /// Judges by the listener with the session's address. If there is none any more, another listener judges that has a
  /// server block with the name of the handshake. `later` gets a refusal that a responder of `ssl_ocsp` decides.
  init(of session: ClientSession, by fresh: LiveGeneration, later: @escaping (Refusal) -> Void) {
    guard let tls = session.tls else {
      // Without TLS, nothing was verified that a reload could take back.
      self = .kept
      return
    }
    let kind = session.servers.settings.kind
    let others = fresh.listeners.lazy.filter { $0.settings.kind == kind }
    guard let servers = session.successor(in: fresh) ?? others.first(where: { $0.has(tls.serverName) }) else {
      let mode = session.firstServer.settings.tls?.revokedConnections ?? .close
      self = .refused(
        Refusal(cause: .listener, reason: "no \"listen\" leads to the client's server block any more", mode: mode))
      return
    }
    func refusal(_ reason: String, _ context: ServerTLSContext?) -> Refusal {
      Refusal(cause: .certificate, reason: reason, mode: context?.settings.revokedConnections ?? .close)
    }
    let context: ServerTLSContext, verdict: ClientVerdict
    switch tls.review(
      by: servers,
      refused: { later(refusal("client SSL certificate verify error: (\($0))", session.firstServer.context)) })
    {
    case .refused(let reason):
      self = .refused(refusal(reason, session.firstServer.context))
      return
    case .unchanged(let same):
      if same.settings.rejection != .reportOnly, case .verified(let chain) = tls.clientVerdict,
        chain.hasEnded(at: Int64(time(nil)))
      {
        self = .refused(
          refusal("client SSL certificate verify error: (10:certificate has expired)", session.firstServer.context))
        return
      }
      (context, verdict) = (same, tls.clientVerdict)
    case .denied(let reason, let judge):
      self = .refused(Refusal(cause: .rule, reason: reason, mode: judge.settings.revokedConnections))
      return
    case .judged(let anew, let judge):
      if case .refused(_, let reason) = Admission(of: anew, by: judge) {
        self = .refused(refusal(reason, judge))
        return
      }
      (context, verdict) = (judge, anew)
    }
    let client = ClientRules.Client(verdict)
    let denied = session.exchanges.filter { !$0.isRelayed }.compactMap { exchange in
      Self.denial(of: exchange, client, context, servers).map { (exchange, $0) }
    }
    self = denied.isEmpty ? .kept : .denied(denied)
  }

  /// The refusal of the request of an exchange, by its Host and its path after rewriting; nil if it may go on. What can't
  /// be decided is refused.
  private static func denial(
    of exchange: Exchange, _ client: ClientRules.Client, _ context: ServerTLSContext, _ servers: VirtualServers
  ) -> Refusal? {
    func refusal(_ reason: String) -> Refusal {
      Refusal(cause: .rule, reason: reason, mode: context.settings.revokedConnections)
    }
    guard let server = server(of: exchange, context, in: servers) else {
      return refusal("its server block could not be decided")
    }
    guard server.admits(clientOf: context) else {
      return refusal("its server block verifies clients by other settings than the handshake's")
    }
    return denial(of: exchange, client, at: server, servers, refusal)
  }

  /// The refusal by the access rules of the location that has the exchange's path.
  private static func denial(
    of exchange: Exchange, _ client: ClientRules.Client, at server: LiveServer, _ servers: VirtualServers,
    _ refusal: (String) -> Refusal
  ) -> Refusal? {
    guard server.settings.clientPolicy?.rejection != .reportOnly else { return nil }
    let scratch = exchange.worker.patternScratch
    var captures = Captures()
    var location = server.root
    if servers.settings.kind == .http {
      switch server.locations.find(exchange.target.uri.readable, captures: &captures, scratch: scratch) {
      case .location(let found), .pattern(let found, _, _), .redirect(let found): location = found
      case .none: break
      case .undecided: return refusal("its location could not be decided")
      }
    }
    guard let rules = location.clientRules,
      case .denied(let place, let reason) = rules.judge(client, scratch: scratch)
    else { return nil }
    return refusal(ClientRules.message(place, reason))
  }

  private static func server(
    of exchange: Exchange, _ context: ServerTLSContext, in servers: VirtualServers
  ) -> LiveServer? {
    // A session of `stream` belongs to the server block of its handshake.
    servers.settings.kind == .stream ? servers.server(of: context) : server(of: exchange, in: servers)
  }

  private static func server(of exchange: Exchange, in servers: VirtualServers) -> LiveServer? {
    let host = exchange.head.bytes.readable[exchange.head.host].map { ASCII.lower($0) }
    return switch servers.find(host) {
    case .found(let found): found.server
    case .default: servers.fallback
    case .undecided: nil
    }
  }

  /// Why the request of a client whom a front has sent may not go on; nil if it may. `fresh` judges the client's
  /// certificate by the server block of the request's Host, and whether the front's word counts there at all. Whether the
  /// certificate of the front still verifies is a question about its session.
  static func refusal(
    ofRelayed exchange: Exchange, _ relayed: RelayedClient, _ session: ClientSession, by fresh: LiveGeneration
  ) -> Refusal? {
    func refusal(_ cause: RevokedRequest, _ reason: String, _ server: LiveServer) -> Refusal {
      Refusal(cause: cause, reason: reason, mode: server.settings.clientPolicy?.revokedConnections ?? .close)
    }
    let others = fresh.listeners.lazy.filter { $0.settings.kind == .http }
    guard let servers = session.successor(in: fresh) ?? others.first(where: { $0.has(session.tls?.serverName ?? []) })
    else { return refusal(.listener, "no \"listen\" leads to the client's server block any more", exchange.server) }
    guard let server = server(of: exchange, in: servers) else {
      return refusal(.rule, "its server block could not be decided", exchange.server)
    }
    guard let search = server.certificateSearch, let context = server.context else {
      // Without TLS, and with no more word of fronts, nothing is asked of a client that had no certificate.
      if relayed.source == .stranger { return nil }
      return refusal(.rule, "its server block takes no front's word any more", exchange.server)
    }
    guard search.believes(relayed.source, session) else {
      return refusal(.rule, "its server block does not take this front's word any more", server)
    }
    let verdict = context.judge(relayed.certificates, at: Int64(time(nil)))
    if case .refused(_, let reason) = Admission(of: verdict, by: context) {
      return refusal(.certificate, reason, server)
    }
    return denial(of: exchange, ClientRules.Client(verdict), at: server, servers) { refusal(.rule, $0, server) }
  }
}
