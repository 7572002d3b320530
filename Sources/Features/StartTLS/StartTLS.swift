import Forward
import Language
import Negotiation
import Observability
import TLS
import Traffic

/// starttls and proxy_starttls, which nginx's `stream` does not have: TLS that a client asks for in the words of its
/// protocol, and that sallyport asks an upstream for.
enum StartTLS: PassFeature {
  static let chapter = Chapter.stream
  static let kinds: Set<TrafficKind> = [.stream]

  private static let client = DirectiveEntry.value(
    "starttls", .everyStream, .oneOf(NegotiatedProtocol.allCases.map(\.rawValue) + ["off"]), "off",
    "How clients ask for TLS, on a `listen … ssl`: `postgres` by SSLRequest, or at once with ALPN `postgresql`; `smtp`,"
      + " `imap` and `pop3` by STARTTLS; `ldap` by the extended operation StartTLS. A client that asks for nothing is"
      + " refused in its protocol's words, and one that sends bytes behind its request in clear is cut off.",
    example: "starttls postgres;", trust: .told
  ).option("--starttls")
  private static let upstream = DirectiveEntry.value(
    "proxy_starttls", .everyStream, .oneOf(NegotiatedProtocol.allCases.map(\.rawValue) + ["off"]), "off",
    "How sallyport asks the upstream for TLS before the handshake of `proxy_ssl on`. An upstream that refuses gets"
      + " nothing of the client.", example: "proxy_starttls postgres;", trust: .told
  ).option("--upstream-starttls")

  static let directives = [client, upstream]

  private static func kind(_ scope: Scope, _ row: DirectiveEntry) -> NegotiatedProtocol? {
    row.text(in: scope).flatMap { NegotiatedProtocol(rawValue: $0.lowercased()) }
  }

  static func ofClients(_ scope: Scope) -> NegotiatedProtocol? { kind(scope, client) }

  /// What is said to the upstream before its protocol; nil: nothing. Where clients get a greeting of sallyport's own, that
  /// of the upstream isn't theirs.
  static func ofUpstream(_ scope: Scope) -> UpstreamOpening? {
    if let asked = kind(scope, upstream) { return UpstreamOpening(kind: asked, goal: .tls) }
    guard let greeted = ofClients(scope) else { return nil }
    switch greeted {
    case .smtp, .imap, .pop3: return UpstreamOpening(kind: greeted, goal: .greetingOnly)
    case .postgres, .ldap: return nil
    }
  }

  static func readPass(_ draft: inout PassDraft, _ builder: inout SettingsBuilder) {
    let scope = draft.scope
    draft.settings.tcp.opening = ofUpstream(scope)
    draft.settings.tcp.passesGreeting = ofClients(scope) == nil
  }

  static func read(_ block: inout ServerBlock, _ builder: inout SettingsBuilder) {
    let asked = ofClients(block.scope)
    block.stream?.negotiation = asked
    // PostgreSQL's clients that begin with TLS at once demand that ALPN selects their protocol.
    guard block.kind == .stream, asked == .postgres, case .any? = block.linesOfTLS?.protocols else { return }
    block.linesOfTLS?.protocols = .names([NegotiatedProtocol.postgresALPN])
  }

  static func judge(_ block: ServerBlock, _ builder: inout SettingsBuilder) {
    guard block.kind == .stream else { return }
    builder.diagnostics += contradictions(block, builder.features)
  }

  private static func contradictions(_ block: ServerBlock, _ features: FeatureDirectives) -> [Diagnostic] {
    let scope = block.scope
    var found: [Diagnostic] = []
    if let line = client.line(in: scope), ofClients(scope) != nil, !block.isTLS || block.alsoPlain {
      found.append(
        Diagnostic(
          .error, at: line.location, "\"\(client.name)\" on a \"listen\" without ssl",
          hint: "write \"listen … ssl\": the client's TLS ends here"))
    }
    if let line = upstream.line(in: scope), let asked = kind(scope, upstream) {
      if !features.ofUpstream(.stream).contains(where: { $0.usesTLS(scope) }) {
        found.append(
          Diagnostic(
            .error, at: line.location, "\"\(upstream.name)\" without \"proxy_ssl on\"",
            hint: "write proxy_ssl on; and whom to trust, such as proxy_ssl_trusted_certificate"))
      }
      if let other = ofClients(scope), other != asked {
        found.append(
          Diagnostic(
            .error, at: line.location,
            "\"\(upstream.name) \(asked.rawValue)\" beside \"\(client.name) \(other.rawValue)\"",
            hint: "a connection has one protocol"))
      }
    }
    return found
  }
}
