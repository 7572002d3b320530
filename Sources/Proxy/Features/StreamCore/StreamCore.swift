import Transport
import TLS
import Bytes
import Language
import Negotiation
import Observability

/// stream and its servers (nginx: ngx_stream_core_module): connections of any protocol, passed as they are.
///
/// The directives that `http` has too stand in the folders of their features.
struct StreamCore: LocationFeature {
  static let chapter = Chapter.stream
  static let kinds: Set<TrafficKind> = [.stream]

  static let directives: [DirectiveEntry] = [
    .local(
      "stream", .main, .block(0...0, ""),
      "The servers that pass connections of any protocol over TCP: databases, mail, directories, remote shells.",
      example: "stream { server { listen 5433; proxy_pass 127.0.0.1:5432; } }", trust: .told),
    .local(
      "server", .stream, .block(0...0, ""), "A server: addresses, who may connect, and where connections go.",
      repeatable: true, example: "server { listen 127.0.0.1:6380; proxy_pass 127.0.0.1:6379; }", trust: .told),
    .value(
      "proxy_protocol_timeout", .everyStream, .milliseconds, "30s",
      "How long sallyport waits for the header of the PROXY protocol (`listen … proxy_protocol`).",
      example: "proxy_protocol_timeout 5s;", trust: .none),
    .value(
      "ssl_handshake_timeout", .everyStream, .milliseconds, "60s",
      "The time limit for the TLS handshake, with the negotiation of `starttls` before it.",
      example: "ssl_handshake_timeout 10s;", trust: .none),
    .value(
      "ssl_alpn", .everyStream, .words(1...Int.max, "PROTOCOL …"), "",
      "The protocols that ALPN may select (RFC 7301). A client that offers only others is refused; one that offers none is"
        + " not.", example: "ssl_alpn postgresql;"),
    .value(
      "connection_max_time", .everyStream, .milliseconds, "0",
      "How long a connection may last; 0 means no limit. nginx has no such directive.",
      example: "connection_max_time 12h;", trust: .none),
  ]

  /// As much as a session has seen by now.
  static let variables = [
    FeatureVariable("protocol", of: [.stream]) { _, output in output.append("TCP") },
    FeatureVariable("bytes_received", of: [.stream]) { exchange, output in
      output.append(decimal: (exchange.stream as? TCPStream)?.receivedBytes ?? 0)
    },
    FeatureVariable("session_time", of: [.stream]) { exchange, output in
      Exchange.append(milliseconds: exchange.worker.loop.now &- exchange.account.startedAt, to: &output)
    },
  ]

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> StreamCore? {
    level.isOfStream ? StreamCore() : nil
  }

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) { parts.steps.precontent.append(OpeningStep()) }

  /// What the lines in effect at a server set.
  static func settings(_ scope: Scope, _ builder: inout SettingsBuilder) -> StreamServerSettings {
    var settings = StreamServerSettings()
    settings.proxyHeaderTimeout = scope.milliseconds("proxy_protocol_timeout") ?? settings.proxyHeaderTimeout
    settings.handshakeTimeout = scope.milliseconds("ssl_handshake_timeout") ?? settings.handshakeTimeout
    settings.lifetime = scope.milliseconds("connection_max_time") ?? 0
    settings.preread = StreamPreread.read(scope, &builder)
    settings.negotiation = StartTLS.ofClients(scope)
    return settings
  }

  /// The names of `ssl_alpn`; nil: ALPN selects nothing.
  static func applicationProtocols(_ scope: Scope, _ builder: inout SettingsBuilder) -> [String]? {
    guard let line = scope.value("ssl_alpn") else { return nil }
    return builder.protocolNames(line.arguments, of: line)
  }
}

extension SettingsBuilder {
  /// The names of an ALPN directive, 1 to 255 bytes each.
  mutating func protocolNames(_ words: [Word], of line: Directive) -> [String] {
    words.compactMap { word in
      if (1...255).contains(word.text.utf8.count) { return word.text }
      error(
        word.location, "invalid protocol \"\(word.text)\" in \"\(line.name)\" directive",
        hint: "1 to 255 bytes (RFC 7301)"
      )
      return nil
    }
  }

  /// Builds the `stream {}` block, as `addHTTP` does `http`.
  mutating func addStream(_ block: [Directive], at place: SourceLocation, outer: Scope) {
    kind = .stream
    variables = DefinedVariables(.stream, firstSlot: variables.endSlot)
    let stream = Scope(block, outer: outer)
    variables.collect(from: block)
    diagnostics += variables.diagnostics
    for feature in Features.all where feature.kinds.contains(.stream) { feature.begin(stream, &self) }
    refuseCircles()
    let blocks = stream.own("server").map { ($0, Scope($0.block ?? [], outer: stream)) }
    // A package's file includes a folder that may be empty.
    if blocks.isEmpty, servers.isEmpty {
      error(
        place, "\"stream\" has no \"server\" block: it has nothing to pass",
        hint: "server { listen 5433 ssl; proxy_pass db:5432; }")
    }
    let (first, before) = (servers.count, listeners.listeners.count)
    for (index, (directive, scope)) in blocks.enumerated() {
      for line in listenLines(scope, at: directive.location, allTLS: false) {
        diagnostics += listeners.add(line, server: first + index)
      }
    }
    let own = listeners.listeners.dropFirst(before)
    let speakingTLS = Set(own.filter(\.isTLS).flatMap(\.servers))
    let speakingPlain = Set(own.filter { !$0.isTLS }.flatMap(\.servers))
    for (index, (directive, scope)) in blocks.enumerated() {
      servers.append(
        streamServer(
          scope, at: directive.location, isTLS: speakingTLS.contains(first + index),
          alsoPlain: speakingPlain.contains(first + index)))
    }
    diagnostics += ServerNameRule.conflicts(Array(own), servers)
    diagnostics += StreamPass.leadToAPI(listeners.listeners, servers)
    endBlock()
  }

  private mutating func streamServer(
    _ scope: Scope, at place: SourceLocation, isTLS: Bool, alsoPlain: Bool
  ) -> ServerSettings {
    var tls = isTLS ? serverTLS(scope) : nil
    let settings = StreamCore.settings(scope, &self)
    tls?.protocols = AcceptedProtocols(StreamCore.applicationProtocols(scope, &self), settings.negotiation)
    let facts = ServerTLSFacts(scope: scope, tls: tls, alsoPlain: alsoPlain, isOfStream: true, place: place)
    diagnostics += ServerTLSRule.allCases.compactMap { $0.diagnostic(facts) }
    diagnostics += ServerWorkloadRule.allCases.compactMap { $0.diagnostic(facts) }
    diagnostics += ClientIdentityRule.diagnostics(facts)
    diagnostics += StartTLS.contradictions(scope, isTLS: isTLS, alsoPlain: alsoPlain)
    let root = location(.streamServer(scope), at: place)
    diagnostics += ClientTrustRule.diagnostics(facts, root)
    let places = Features.contents(of: .stream).compactMap { $0.line(in: scope)?.location }
    let contents = scope.directives.filter { places.contains($0.location) }
    if contents.isEmpty, tls?.rejectsHandshake != true {
      // As nginx since 1.25.5, which says nothing of it.
      warning(
        place, "no handler for server: each of its connections ends with the status 500",
        hint: "name what becomes of them: proxy_pass ADDRESS:PORT; or return TEXT; or pass ADDRESS:PORT;")
    }
    for other in contents.dropFirst() {
      error(
        other.location, "\"\(other.name)\" beside \"\(contents[0].name)\": a server can have only one content handler",
        hint: "use a separate server; \(contents[0].name) is at \(contents[0].location)")
    }
    return ServerSettings(
      names: ServerNames.read(scope, &self), primaryName: ServerNames.primary(scope), tls: tls,
      head: ClientHeadSettings(), stream: settings, root: root, location: place)
  }
}

extension AcceptedProtocols {
  /// `names`: of `ssl_alpn`. PostgreSQL's clients that begin with TLS at once demand that ALPN selects their protocol.
  fileprivate init(_ names: [String]?, _ negotiation: NegotiatedProtocol?) {
    if let names {
      self = .names(names)
    } else if negotiation == .postgres {
      self = .names([NegotiatedProtocol.postgresALPN])
    } else {
      self = .any
    }
  }
}
