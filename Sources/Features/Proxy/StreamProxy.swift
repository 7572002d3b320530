import Identity
import TLS
import Language
import Negotiation
import Observability
import Transport
import Upstream

/// proxy_pass in stream (nginx: ngx_stream_proxy_module). The directives that `http` has too are those of `proxyDirectives`.
enum StreamProxy: UpstreamFeature, PassFeature {
  static let chapter = Chapter.stream
  static let kinds: Set<TrafficKind> = [.stream]
  static let dialect: PassDialect = {
    var dialect = PassDialect(name: "TCP", prefix: "proxy_")
    dialect.portForm = "proxy_pass ADDRESS:PORT"
    dialect.version = .tcp
    return dialect
  }()
  private static let tls = "proxy_ssl"

  static func line(in scope: Scope) -> Directive? { scope.own("proxy_pass").first }

  static func pass(_ line: Directive, _ level: Level, _ builder: inout SettingsBuilder) -> UpstreamPass? {
    builder.streamTarget(line, usesTLS(level.scope) ? .https : .http).map { builder.pass(line, level, $0, dialect) }
  }

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

extension StreamProxy {
  static func judge(_ level: Level, _ builder: inout SettingsBuilder) { ChosenTargetRule.judge(level, &builder) }

  static func readPass(_ draft: inout PassDraft, _ builder: inout SettingsBuilder) {
    let scope = draft.scope
    draft.target.host = draft.url.authority?.nameForTLS ?? ""
    draft.origin = builder.origin(scope)
    draft.buffers.head = builder.headBufferSize(scope)
    draft.buffers.total = draft.buffers.head
    draft.buffers.collectsRequests = false
    draft.timeouts.connect = scope.milliseconds("proxy_connect_timeout") ?? draft.timeouts.connect
    if scope.flag("proxy_next_upstream") == false { draft.retry.conditions = [] }
    draft.retry.tries = scope.number("proxy_next_upstream_tries") ?? 0
    draft.retry.timeout = scope.milliseconds("proxy_next_upstream_timeout") ?? 0
    var tcp = draft.tcp ?? TCPPassSettings()
    if let line = scope.value("proxy_ssl_alpn") {
      tcp.offeredProtocols = line.hasVariables ? line.arguments.map { builder.template($0) } : []
      // As in nginx, "" takes the place of the names outside, and is none.
      let names = line.arguments.filter { !$0.text.isEmpty }
      draft.offeredProtocols = line.hasVariables ? [] : StreamCore.protocolNames(names, of: line, &builder)
    }
    tcp.timeout = scope.milliseconds("proxy_timeout") ?? tcp.timeout
    tcp.bufferSize = draft.buffers.head
    tcp.keepsHalfOpen = scope.flag("proxy_half_close") ?? false
    tcp.uploadRate = builder.rateSize(scope.value("proxy_upload_rate"))
    tcp.downloadRate = builder.rateSize(scope.value("proxy_download_rate"))
    draft.tcp = tcp
  }
}

extension SettingsBuilder {
  fileprivate mutating func streamTarget(_ directive: Directive, _ scheme: UpstreamScheme) -> PassedURL? {
    guard let word = directive.arguments.first else { return nil }
    if word.text.contains("$") {
      return PassedURL(authority: nil, target: .template(template(word), scheme), uri: nil, base: word.text)
    }
    do throws(Authority.ParseError) {
      let authority = try Authority(parsing: word.text)
      if let form = StreamProxy.dialect.portForm { try requirePort(of: authority, form) }
      guard let index = try target(authority, scheme, directive) else { return nil }
      return PassedURL(authority: authority, target: .group(index, scheme), uri: nil, base: word.text)
    } catch {
      self.error(word.location, "\(error.reason) in \"proxy_pass\" directive: \"\(word.text)\"", hint: error.hint)
      return nil
    }
  }
}
