import Identity
import TLS
import Language
import Negotiation
import Observability
import Transport
import Upstream

/// proxy_pass in stream (nginx: ngx_stream_proxy_module). The directives that `http` has too are those of `proxyDirectives`.
enum StreamProxy: Feature {
  static let chapter = Chapter.stream
  static let kinds: Set<TrafficKind> = [.stream]
  /// Whether the connection to an upstream is TLS.
  static let tls = "proxy_ssl"

  static func usesTLS(_ scope: Scope) -> Bool { scope.flag(tls) == true }

  static let directives: [DirectiveEntry] = [
    .local(
      "proxy_pass", .streamServer, .words(1...1, "ADDRESS:PORT | GROUP | unix:PATH"),
      "Where connections go. Variables can name it (`proxy_pass $backend`).", example: "proxy_pass db.internal:5432;",
      trust: .told),
    .value(
      tls, .everyStream, .flag, "off",
      "Whether the connection to the upstream is TLS, verified as `proxy_ssl_…` says.", example: "proxy_ssl on;",
      trust: .told),
    .value(
      "proxy_ssl_alpn", .everyStream, .words(1...Int.max, "PROTOCOL …"), "",
      "The protocols that sallyport offers the upstream by ALPN (RFC 7301). They can have variables; an empty value offers"
        + " nothing.", example: "proxy_ssl_alpn postgresql;"),
    .value(
      "proxy_timeout", .everyStream, .milliseconds, "10m",
      "How long a connection may be silent in both directions before it ends.", example: "proxy_timeout 1h;",
      trust: .none),
    .value(
      "proxy_half_close", .everyStream, .flag, "off",
      "Whether a side that has ended leaves the other one open. Without it, the connection ends as soon as the bytes of the"
        + " side that ended first are delivered.", example: "proxy_half_close on;", trust: .none),
    .value(
      "proxy_upload_rate", .everyStream, .words(1...1, "RATE"), "0",
      "Bytes per second that are read from the client; 0 means no limit. It can have variables.",
      example: "proxy_upload_rate 1m;", trust: .none),
    .value(
      "proxy_download_rate", .everyStream, .words(1...1, "RATE"), "0",
      "Bytes per second that are read from the upstream; 0 means no limit. It can have variables.",
      example: "proxy_download_rate 1m;", trust: .none),
    .value(
      "proxy_next_upstream", .everyStream, .flag, "on",
      "Whether a connection goes to the next server of the group if one can't be reached or isn't trusted.",
      example: "proxy_next_upstream off;", trust: .none),
  ]

  static let variables = [
    FeatureVariable("upstream_first_byte_time", of: [.stream]) { exchange, output in
      (exchange.handler as? TCPHandler)?.appendTime(\.headAt, to: &output)
    },
    FeatureVariable("upstream_session_time", of: [.stream]) { exchange, output in
      (exchange.handler as? TCPHandler)?.appendTime(\.endedAt, to: &output)
    },
  ]
}

/// What `stream` says of a `proxy_pass`, besides what it shares with `http`.
public struct TCPPassSettings: Sendable {
  /// Milliseconds without a byte in either direction (`proxy_timeout`).
  public var timeout = 600_000
  /// Bytes that may wait for either side (`proxy_buffer_size`).
  public var bufferSize = 16 * 1024
  public var uploadRate: Template?
  public var downloadRate: Template?
  /// `proxy_ssl_alpn` with variables, each a name; empty: the TLS settings have the names.
  public var offeredProtocols: [Template] = []
  /// `proxy_half_close`
  public var keepsHalfOpen = false
  /// What is said to the upstream before its protocol.
  public var opening: UpstreamOpening?
  /// Whether clients get the greeting of the upstream: sallyport has read it for itself.
  public var passesGreeting = false
}

extension UpstreamPass {
  /// How a connection that no client is behind asks for TLS. A greeting without TLS is left to whoever reads it.
  var negotiationOfOwnConnections: UpstreamNegotiation? {
    guard let opening = tcp?.opening, opening.goal == .tls else { return nil }
    return UpstreamNegotiation(opening.kind, goal: .tls, name: Sockets.hostName)
  }
}

extension SettingsBuilder {
  /// Builds a `proxy_pass` of `stream`, as `proxyPass` does one of `http`.
  mutating func streamPass(_ directive: Directive, _ level: Level) -> UpstreamPass? {
    let scope = level.scope
    let scheme: UpstreamScheme = StreamProxy.usesTLS(scope) ? .https : .http
    guard let url = streamTarget(directive, scheme) else { return nil }
    let facts = upstreamTrustFacts(scope, url, directive)
    diagnostics += UpstreamTrustRule.allCases.compactMap { $0.diagnostic(facts) }
    diagnostics += UpstreamWorkloadRule.allCases.compactMap { $0.diagnostic(facts) }
    diagnostics += PinningRule.allCases.flatMap { $0.diagnostics(facts) }
    let name = url.authority.map { Template(literal: $0.nameForTLS) } ?? Template([.variable(.simple(.proxy_host))])
    let tlsName = scope.tlsNameLine.map { template($0, 0) } ?? name
    var tls = facts.mayUseTLS ? upstreamTLS(scope, facts, .tcp) : nil
    var tcp = TCPPassSettings()
    if let line = scope.value("proxy_ssl_alpn") {
      tcp.offeredProtocols = line.hasVariables ? line.arguments.map { template($0) } : []
      // As in nginx, "" takes the place of the names outside, and is none.
      tls?.protocols = line.hasVariables ? [] : protocolNames(line.arguments.filter { !$0.text.isEmpty }, of: line)
    }
    tcp.timeout = scope.milliseconds("proxy_timeout") ?? tcp.timeout
    tcp.bufferSize = headBufferSize(scope)
    tcp.keepsHalfOpen = scope.flag("proxy_half_close") ?? false
    tcp.uploadRate = rateSize(scope.value("proxy_upload_rate"))
    tcp.downloadRate = rateSize(scope.value("proxy_download_rate"))
    tcp.opening = StartTLS.ofUpstream(scope)
    tcp.passesGreeting = StartTLS.ofClients(scope) == nil
    let identity = facts.mayUseTLS ? presentedIdentity(scope, facts) : nil
    let check = healthCheck(scope, url, tlsName: tlsName, identity: identity)
    var timeouts = UpstreamTimeouts()
    timeouts.connect = scope.milliseconds("proxy_connect_timeout") ?? timeouts.connect
    var retry = RetrySettings()
    if scope.flag("proxy_next_upstream") == false { retry.conditions = [] }
    retry.tries = scope.number("proxy_next_upstream_tries") ?? 0
    retry.timeout = scope.milliseconds("proxy_next_upstream_timeout") ?? 0
    return UpstreamPass(
      target: url.target, uri: nil, host: url.authority?.nameForTLS ?? "", port: "", replacedPrefix: 0, tls: tls,
      identity: identity, tlsName: tlsName, version: .tcp,
      setFields: [], clientIdentity: .off, method: nil, passesRequestFields: false, passesRequestBody: true,
      hiddenFields: [], redirects: [], interceptsErrors: false, headBufferSize: tcp.bufferSize,
      bufferTotal: tcp.bufferSize, requestBuffering: false, timeouts: timeouts, retry: retry,
      ignoresClientAbort: false, authentication: nil, envelope: nil, speaksGRPC: false, healthCheck: check,
      location: directive.location, origin: origin(scope), nameResolution: nameResolution(scope), tcp: tcp)
  }

  private mutating func streamTarget(_ directive: Directive, _ scheme: UpstreamScheme) -> PassedURL? {
    guard let word = directive.arguments.first else { return nil }
    if word.text.contains("$") {
      return PassedURL(authority: nil, target: .template(template(word), scheme), uri: nil, base: word.text)
    }
    do throws(Authority.ParseError) {
      let authority = try Authority(parsing: word.text)
      try requirePort(of: authority, "proxy_pass ADDRESS:PORT")
      guard let index = try target(authority, scheme, directive) else { return nil }
      return PassedURL(authority: authority, target: .group(index, scheme), uri: nil, base: word.text)
    } catch {
      self.error(word.location, "\(error.reason) in \"proxy_pass\" directive: \"\(word.text)\"", hint: error.hint)
      return nil
    }
  }
}
