package import Identity
package import Language
package import Observability
package import TLS

/// A server block of `http` or `stream` while the configuration is read. Each feature reads its lines of the block in turn
/// (`Feature.read`), in the order of `Features.all`, and judges the whole when all of them have (`Feature.judge`).
package struct ServerBlock {
  package private(set) var scope: Scope
  package let kind: TrafficKind
  /// Where the block stands, for messages.
  package let place: SourceLocation
  /// What the block says outside locations, and its locations.
  package let root: LocationSettings
  /// Whether none of those has an error. What a line with one is meant to do, the server would do.
  package let isWhole: Bool
  /// Whether a `listen` of the block has `ssl`.
  package let isTLS: Bool
  /// Whether a `listen` of the block has none.
  package let alsoPlain: Bool
  /// Whether a `listen` of the block has the parameter `http2`.
  package let listensHTTP2: Bool
  /// Whether a front may send clients' certificates, also over plain HTTP.
  package let takesRelayedClients: Bool
  /// What the block's lines about TLS say, although no `listen` may have `ssl`; nil: nobody asks for them.
  package var linesOfTLS: ServerTLSSettings?
  /// By what the clients of trusted fronts are judged in a block without TLS; nil: there are none, or it has TLS.
  package var relayedPolicy: ServerTLSSettings?
  /// Whether lines of pins are in effect for clients, faulty ones too.
  package var hasClientPins = false
  /// The access rules on clients that the block's own level has; nil: every client that is verified gets in.
  package var clientRules: ClientRules?
  package var http2 = HTTP2Settings()
  /// What happens before the content of a session; nil: the block is of `http`.
  package var stream: StreamServerSettings?

  /// The settings of handshakes; nil when no `listen` of the block has `ssl`.
  package var tls: ServerTLSSettings? { isTLS ? linesOfTLS : nil }
  /// The settings by which clients are judged; nil: nobody is.
  package var clients: ServerTLSSettings? { tls ?? relayedPolicy }

  /// The block's own line of a directive, the last of several.
  package func own(_ row: some DirectiveRow) -> Directive? { scope.own(row.name).last }
  package func line(_ row: some DirectiveRow) -> Directive? { row.line(in: scope) }
  package func lines(_ row: some DirectiveRow) -> [Directive] { row.lines(in: scope) }
  package func flag(_ row: some DirectiveRow) -> Bool? { row.flag(in: scope) }

  /// The block as it would be with these lines in front of its own.
  package func with(_ lines: [Directive]) -> ServerBlock {
    var other = self
    other.scope = Scope(lines, outer: scope)
    return other
  }

  /// Returns an error if the block never requests a certificate from a client.
  package func unasked(_ line: Directive, hint: String) -> Diagnostic? {
    // A server that refuses every handshake has no clients, so the rule does not apply.
    if let tls, tls.rejectsHandshake, !alsoPlain { return nil }
    let reason: String
    switch clients?.verification {
    case nil: reason = "has no listen with ssl"
    case .off: reason = "says ssl_verify_client off"
    case .on, .optional, .optionalNoCA: return nil
    }
    return Diagnostic(
      .error, at: line.location,
      "\"\(line.name)\" needs client certificates, but the server at \(place) \(reason)",
      hint: hint)
  }
}

extension SettingsBuilder {
  /// Adds the servers of `http` or `stream`, with their listeners.
  mutating func addServers(_ blocks: [(Directive, Scope)]) {
    let (first, before) = (servers.count, listeners.listeners.count)
    for (index, (directive, scope)) in blocks.enumerated() {
      var allTLS = false
      for feature in features.all where feature.encryptsListeners(scope, &self) { allTLS = true }
      for feature in features.all {
        for line in feature.listenLines(scope, at: directive.location, allTLS: allTLS, &self) {
          diagnostics += listeners.add(line, server: first + index)
        }
      }
    }
    let own = listeners.listeners.dropFirst(before)
    let speakingTLS = Set(own.filter(\.isTLS).flatMap(\.servers))
    let speakingPlain = Set(own.filter { !$0.isTLS }.flatMap(\.servers))
    let listensHTTP2 = Set(listeners.http2.flatMap { listeners.listeners[$0].servers })
    for (index, (directive, scope)) in blocks.enumerated() {
      let index = first + index, level: Level = kind == .http ? .server(scope) : .streamServer(scope)
      let before = diagnostics.count, root = location(level, at: directive.location)
      let block = ServerBlock(
        scope: scope, kind: kind, place: directive.location, root: root, isWhole: !hasError(since: before),
        isTLS: speakingTLS.contains(index),
        alsoPlain: speakingPlain.contains(index), listensHTTP2: listensHTTP2.contains(index),
        takesRelayedClients: root.features.contains { $0.relaysClients })
      servers.append(server(block))
    }
    diagnostics += ServerNameRule.conflicts(Array(own), servers)
    for feature in features.all { feature.judge(listeners.listeners, servers, &self) }
  }

  private mutating func server(_ block: ServerBlock) -> ServerSettings {
    var block = block
    for feature in features.all { feature.read(&block, &self) }
    for feature in features.all { feature.judge(block, &self) }
    if kind == .http { judgeHTTP(block) } else { judgeStream(block) }
    return ServerSettings(
      names: ServerNames.read(block.scope, &self), primaryName: ServerNames.primary(block.scope), tls: block.tls,
      relayedPolicy: block.relayedPolicy,
      head: kind == .http ? CoreHTTP.head.read(block.scope, &self) : ClientHeadSettings(),
      http2: block.http2, stream: block.stream, root: block.root,
      parts: kind == .http ? ServerParts(features, block.root) : ServerParts(), location: block.place)
  }
}

/// A certificate that a feature gets by itself, in place of a file that the configuration names.
package enum OwnCertificate {
  case source(CertificateSource)
  /// The feature has reported why there is none.
  case faulty
}
