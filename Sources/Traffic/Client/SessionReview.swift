import Bytes
import Glibc
import HTTP
import Identity
import Patterns
package import TLS
import Transport

/// Why a client is judged again while a request of it is in progress.
enum ReviewOccasion {
  /// Another generation serves.
  case reload
  /// What the client was judged by has ended: a certificate, a CRL, an answer of a responder.
  case end
}

/// How a client came in whose connection a listener of `stream` with TLS has passed to another listener (`pass`). The
/// listener that serves it knows of no TLS, and that of `stream` of no request: what was verified there still has its end.
package struct PassedClient {
  package let tls: TLSStream
  package let listener: VirtualServers
}

/// What the configuration that was loaded last decides on a client whose requests are in progress. A tunnel, an event
/// stream or a download can last for days, so none of them may go on for a client that a new request would be refused.
enum SessionReview {
  struct Refusal {
    let cause: RevokedRequest
    /// For the error log.
    let reason: String
    let mode: RevokedConnections
    /// What is known of the client from now on; nil: what was known before.
    var verdict: ClientVerdict?
  }

  case kept
  /// No request of the client may go on.
  case refused(Refusal)
  /// These may not go on.
  case denied([(transaction: Transaction, refusal: Refusal)])

  /// Judges by the listener that `VirtualServers.judge(of:in:)` finds. `later` gets what a responder of `ssl_ocsp` decides;
  /// nil: it lets the client in.
  init(of session: ClientSession, by fresh: LiveGeneration, later: @escaping (Refusal?) -> Void) {
    guard let tls = session.tls else {
      // Without TLS, nothing was verified that a reload could take back.
      self = .kept
      return
    }
    let servers = session.servers.judge(of: tls, since: session.live, in: fresh)
    switch Self.judge(tls, by: servers, session.firstServer.context, fresh, later) {
    case .refused(let refusal): self = .refused(refusal)
    case .admitted(let context, let verdict):
      let client = ClientRules.Client(verdict)
      let denied = session.transactions.filter { !$0.isRelayed }.compactMap { transaction in
        Self.denial(of: transaction, client, context, servers).map { (transaction, $0) }
      }
      self = denied.isEmpty ? .kept : .denied(denied)
    }
  }

  private enum Finding {
    case admitted(ServerTLSContext, ClientVerdict)
    case refused(Refusal)
  }

  /// Judges the client of a handshake by the server block that its name selects now. `former`: the block that the
  /// connection belongs to. `fresh`: the generation that serves.
  private static func judge(
    _ tls: TLSStream, by servers: VirtualServers, _ former: ServerTLSContext?, _ fresh: LiveGeneration,
    _ later: @escaping (Refusal?) -> Void
  ) -> Finding {
    func refusal(_ reason: String, _ context: ServerTLSContext?, _ verdict: ClientVerdict? = nil) -> Refusal {
      Refusal(
        cause: .certificate, reason: reason, mode: context?.settings.revokedConnections ?? .close, verdict: verdict)
    }
    func finding(_ verdict: ClientVerdict, _ judge: ServerTLSContext) -> Finding {
      let verdict = revocation(of: verdict, judgedBy: servers, in: fresh) ?? verdict
      if case .refused(_, _, let reason) = Admission(of: verdict, by: judge) {
        return .refused(refusal(reason, judge, verdict))
      }
      return .admitted(judge, verdict)
    }
    let review = tls.review(
      by: servers,
      answered: { reason in
        later(reason.map { refusal("client SSL certificate verify error: (\($0))", former) })
      })
    switch review {
    case .refused(let reason): return .refused(refusal(reason, former))
    case .unchanged(let same):
      if case .absent = tls.clientVerdict { return .admitted(same, .absent) }
      // The verdict may be that of an earlier review, whose refusal has given the requests a grace.
      return finding(tls.clientVerdict, same)
    case .denied(let reason, let judge):
      return .refused(Refusal(cause: .rule, reason: reason, mode: judge.settings.revokedConnections))
    case .judged(let anew, let judge): return finding(anew, judge)
    }
  }

  /// The verdict on a client that a listener of an earlier generation has verified by the CRLs of its last load, if a CRL of
  /// the generation that serves revokes a certificate of its chain; nil if none does, or the listener is of that generation.
  ///
  /// Nobody reads files for a listener that was removed. But a CA tells in each of its CRLs whom it has revoked, whichever
  /// server block has read the CRL.
  private static func revocation(
    of verdict: ClientVerdict, judgedBy servers: VirtualServers, in fresh: LiveGeneration
  ) -> ClientVerdict? {
    if fresh.listeners.contains(where: { $0 === servers }) { return nil }
    return verdict.revoked(by: fresh.revocations, at: Int64(time(nil)))
  }

  /// Why a client may not go on that came in by a listener of `stream` with TLS, which has passed its connection on
  /// (`pass`); nil if it may. That listener's server block judges it: the listener that serves it asks nothing.
  static func refusal(
    of passed: PassedClient, by fresh: LiveGeneration, _ session: ClientSession, later: @escaping (Refusal?) -> Void
  ) -> Refusal? {
    let former = passed.tls.serverContext
    let servers = passed.listener.judge(of: passed.tls, since: session.live, in: fresh)
    switch judge(passed.tls, by: servers, former, fresh, later) {
    case .refused(let refusal): return refusal
    case .admitted(let context, let verdict):
      guard let server = servers.server(of: context) else {
        return Refusal(
          cause: .rule, reason: "its server block could not be decided", mode: context.settings.revokedConnections)
      }
      guard server.settings.clientPolicy?.rejection != .reportOnly, let rules = server.root.clientRules,
        case .denied(let place, let reason) = rules.judge(
          ClientRules.Client(verdict), scratch: session.worker.patternScratch)
      else { return nil }
      return Refusal(
        cause: .rule, reason: ClientRules.message(place, reason), mode: context.settings.revokedConnections)
    }
  }

  /// The refusal of the request of an exchange, by its Host and its path after rewriting; nil if it may go on. What can't
  /// be decided is refused.
  private static func denial(
    of transaction: Transaction, _ client: ClientRules.Client, _ context: ServerTLSContext, _ servers: VirtualServers
  ) -> Refusal? {
    func refusal(_ reason: String) -> Refusal {
      Refusal(cause: .rule, reason: reason, mode: context.settings.revokedConnections)
    }
    guard let server = server(of: transaction, context, in: servers) else {
      return refusal("its server block could not be decided")
    }
    guard server.admits(clientOf: context) else {
      return refusal("its server block verifies clients by other settings than the handshake's")
    }
    return denial(of: transaction, client, at: server, servers, refusal)
  }

  /// The refusal by the access rules of the location that has the exchange's path.
  private static func denial(
    of transaction: Transaction, _ client: ClientRules.Client, at server: LiveServer, _ servers: VirtualServers,
    _ refusal: (String) -> Refusal
  ) -> Refusal? {
    guard server.settings.clientPolicy?.rejection != .reportOnly else { return nil }
    let scratch = transaction.worker.patternScratch
    var captures = Captures()
    var location = server.root
    if servers.settings.kind == .http {
      switch transaction.path.withUnsafeBytes({ server.locations.find($0, captures: &captures, scratch: scratch) }) {
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
    of transaction: Transaction, _ context: ServerTLSContext, in servers: VirtualServers
  ) -> LiveServer? {
    // A session of `stream` belongs to the server block of its handshake.
    servers.settings.kind == .stream ? servers.server(of: context) : server(of: transaction, in: servers)
  }

  private static func server(of transaction: Transaction, in servers: VirtualServers) -> LiveServer? {
    switch servers.find(transaction.host) {
    case .found(let found): found.server
    case .default: servers.fallback
    case .undecided: nil
    }
  }

  /// Why the request of a client whom a front has sent may not go on; nil if it may, and the exchange then has the time
  /// until which it may. `fresh` judges the client's certificate by the server block of the request's Host, and whether
  /// the front's word counts there at all. Whether the certificate of the front still verifies is a question about its
  /// session.
  static func refusal(
    ofRelayed transaction: Transaction, _ relayed: RelayedClient, _ session: ClientSession, by fresh: LiveGeneration
  ) -> Refusal? {
    func refusal(_ cause: RevokedRequest, _ reason: String, _ server: LiveServer) -> Refusal {
      Refusal(cause: cause, reason: reason, mode: server.settings.clientPolicy?.revokedConnections ?? .close)
    }
    let servers = session.servers.judge(of: session.tls, since: session.live, in: fresh)
    guard let server = server(of: transaction, in: servers) else {
      return refusal(.rule, "its server block could not be decided", transaction.server)
    }
    guard let step = server.relayedClientStep, let context = server.context else {
      // Without TLS, and with no more word of fronts, nothing is asked of a client that had no certificate.
      if relayed.source == .stranger { return nil }
      return refusal(.rule, "its server block takes no front's word any more", transaction.server)
    }
    guard step.believes(relayed.source, session) else {
      return refusal(.rule, "its server block does not take this front's word any more", server)
    }
    let judgement = context.judge(relayed.certificates, at: Int64(time(nil)))
    let revoked = revocation(of: judgement.verdict, judgedBy: servers, in: fresh)
    let verdict = revoked ?? judgement.verdict
    transaction.facts.relayedEnd = revoked == nil ? judgement.validUntil : .max
    if case .refused(_, _, let reason) = Admission(of: verdict, by: context) {
      return refusal(.certificate, reason, server)
    }
    return denial(of: transaction, ClientRules.Client(verdict), at: server, servers) { refusal(.rule, $0, server) }
  }
}

extension VirtualServers {
  /// The listener that decides on clients of this one in another generation: the one with this address.
  ///
  /// Without one, this listener was removed, and what it carries drains as in nginx: it goes on deciding by what it knows,
  /// and by what `SessionReview.revocation` finds.
  /// But if it has verified the client, and the client's server block has only moved to another address, that block
  /// decides with the lists and rules of now. `since`: the generation of the client's session. A listener that led to
  /// another block of the name in that generation is not this one's successor. A client whose handshake had no name is
  /// that of the default block of an address that covers this one, or that this one covered.
  package func judge(of tls: TLSStream?, since live: LiveGeneration, in fresh: LiveGeneration) -> VirtualServers {
    if let successor = successor(in: fresh) { return successor }
    guard let tls, let context = tls.serverContext, context.settings.verification != .off else { return self }
    return fresh.listeners.first { other in
      let (address, own) = (other.settings.address, settings.address)
      guard other.settings.kind == settings.kind, other.settings.isTLS,
        tls.serverName.isEmpty ? address.covers(own) || own.covers(address) : other.has(tls.serverName),
        other.choose(tls.serverName)?.settings.verification != .off
      else { return false }
      guard let before = other.successor(in: live) else { return true }
      return before.choose(tls.serverName) === context
    } ?? self
  }
}
