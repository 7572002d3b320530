import Crypto
import Observability
import TLS
import Language

extension SettingsBuilder {
  /// Builds the `http {}` block: first what servers refer to, then the servers, then the checks across all servers.
  /// Returns its level.
  mutating func addHTTP(_ block: [Directive], at place: SourceLocation, outer: Scope) -> Scope {
    let http = Scope(block, outer: outer)
    variables.collect(from: block)
    diagnostics += variables.diagnostics
    for feature in Features.all where feature.kinds.contains(.http) { feature.begin(http, &self) }
    refuseCircles()
    let blocks = http.own("server").map { ($0, Scope($0.block ?? [], outer: http)) }
    if blocks.isEmpty {
      error(
        place, "\"http\" has no \"server\" block: sallyport has nothing to serve", hint: "server { listen 443 ssl; … }")
    }
    for (index, (directive, scope)) in blocks.enumerated() {
      for line in listenLines(scope, at: directive.location, allTLS: isObsoleteTLS(scope)) {
        diagnostics += listeners.add(line, server: index)
      }
    }
    let speakingTLS = Set(listeners.listeners.filter(\.isTLS).flatMap(\.servers))
    let speakingPlain = Set(listeners.listeners.filter { !$0.isTLS }.flatMap(\.servers))
    let listensHTTP2 = Set(listeners.http2.flatMap { listeners.listeners[$0].servers })
    for (index, (directive, scope)) in blocks.enumerated() {
      servers.append(
        server(
          scope, at: directive.location, isTLS: speakingTLS.contains(index), alsoPlain: speakingPlain.contains(index),
          http2: HTTP2.read(scope, listens: listensHTTP2.contains(index))))
    }
    diagnostics += ServerNameRule.conflicts(listeners.listeners, servers)
    endBlock()
    return http
  }

  private mutating func server(
    _ scope: Scope, at place: SourceLocation, isTLS: Bool, alsoPlain: Bool, http2: HTTP2Settings
  ) -> ServerSettings {
    ACMECertificates.add(scope, &self)
    var tls = isTLS ? serverTLS(scope) : nil
    tls?.offersHTTP2 = http2.isOn
    let before = diagnostics.count
    let root = location(.server(scope), at: place)
    // What a line with an error is meant to do, the server would do.
    let isWhole = !hasError(since: before)
    let relayed = root[RealClientCert.self]
    let policy = isTLS || relayed == nil ? nil : RealClientCert.policy(of: serverTLS(scope))
    let facts = ServerTLSFacts(
      scope: scope, tls: tls, alsoPlain: alsoPlain, takesRelayedClients: relayed != nil, clients: tls ?? policy,
      place: place)
    diagnostics += ServerTLSRule.allCases.compactMap { $0.diagnostic(facts) }
    diagnostics += ServerWorkloadRule.allCases.compactMap { $0.diagnostic(facts) }
    diagnostics += ClientIdentityRule.diagnostics(facts)
    diagnostics += ClientTrustRule.diagnostics(facts, root)
    diagnostics += RealClientCertRule.allCases.compactMap { $0.diagnostic(relayed, facts) }
    diagnostics += LocationRule.namedTargets(of: root)
    let ofSchemes = TargetSchemeRule.diagnostics(
      root, self, scheme: isTLS && alsoPlain ? nil : isTLS ? "https" : "http")
    diagnostics += ofSchemes
    if let diagnostic = LocationRule.escapesBySlashes(scope, root) { diagnostics.append(diagnostic) }
    if isTLS, let diagnostic = Gzip.sparesIdentities(scope, root) { diagnostics.append(diagnostic) }
    if isWhole, root.locations.isEmpty, root[FileSettings.self] == nil, !root.hasContent,
      root[Rewrite.self]?.mayRespond != true,
      tls?.rejectsHandshake != true || alsoPlain
    {
      warning(
        place, "this server responds to every request with 404", hint: "it has no location, no return and no root")
    }
    return ServerSettings(
      names: ServerNames.read(scope, &self), primaryName: ServerNames.primary(scope), tls: tls,
      relayedPolicy: policy, head: head(scope),
      http2: http2, root: root,
      location: place)
  }

  private mutating func head(_ scope: Scope) -> ClientHeadSettings {
    var head = ClientHeadSettings()
    head.timeout = scope.milliseconds("client_header_timeout") ?? head.timeout
    if let (count, size) = buffers(scope.value("large_client_header_buffers")) {
      head.buffers = count
      head.bufferSize = size
    }
    head.ignoresInvalidFields = scope.flag("ignore_invalid_headers") ?? true
    head.underscoresInFields = scope.flag("underscores_in_headers") ?? false
    head.fields = scope.number("max_headers") ?? head.fields
    head.mergesSlashes = scope.flag("merge_slashes") ?? true
    return head
  }
}
