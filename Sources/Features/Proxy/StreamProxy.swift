import Forward
import Identity
import Language
import Negotiation
import Observability
import TLS
import Traffic
import Transport
import Upstream

/// proxy_pass in stream (nginx: ngx_stream_proxy_module). The directives that `http` has too are those of `ProxyPass`.
enum StreamProxy: UpstreamFeature, PassFeature {
  static let chapter = Chapter.stream
  static let kinds: Set<TrafficKind> = [.stream]
  static let dialect: PassDialect = {
    var dialect = PassDialect(name: "TCP", prefix: "proxy_")
    dialect.portForm = "proxy_pass ADDRESS:PORT"
    dialect.version = .tcp
    return dialect
  }()

  static func pass(_ line: Directive, _ level: Level, _ builder: inout SettingsBuilder) -> UpstreamPass? {
    streamTarget(line, usesTLS(level.scope) ? .https : .http, &builder).map { builder.pass(line, level, $0, dialect) }
  }

  static func usesTLS(_ scope: Scope) -> Bool { tls.flag(in: scope) == true }

  private static let pass = DirectiveEntry.local(
    "proxy_pass", .streamServer, .words(1...1, "ADDRESS:PORT | GROUP | unix:PATH"),
    "Where connections go. Variables can name it (`proxy_pass $backend`).", example: "proxy_pass db.internal:5432;",
    trust: .told)
  private static let tls = DirectiveEntry.value(
    "proxy_ssl", .everyStream, .flag, "off",
    "Whether the connection to the upstream is TLS, verified as `proxy_ssl_…` says.", example: "proxy_ssl on;",
    trust: .told)
  private static let alpn = DirectiveEntry.value(
    "proxy_ssl_alpn", .everyStream, .words(1...Int.max, "PROTOCOL …"), "",
    "The protocols that sallyport offers the upstream by ALPN (RFC 7301). They can have variables; an empty value offers"
      + " nothing.", example: "proxy_ssl_alpn postgresql;")

  static let directives = rows.entries
  private static let rows: [Row<PassSettings>] = [
    Row(pass), Row(tls), Row(alpn),
    .milliseconds(
      "proxy_timeout", .everyStream, \.tcp.timeout,
      "How long a connection may be silent in both directions before it ends.", example: "proxy_timeout 1h;",
      trust: .none),
    .flag(
      "proxy_half_close", .everyStream, \.tcp.keepsHalfOpen,
      "Whether a side that has ended leaves the other one open. Without it, the connection ends as soon as the bytes of the"
        + " side that ended first are delivered.", example: "proxy_half_close on;", trust: .none),
    .line(
      "proxy_upload_rate", .everyStream, .words(1...1, "RATE"), initial: "0",
      "Bytes per second that are read from the client; 0 means no limit. It can have variables.",
      example: "proxy_upload_rate 1m;", trust: .none
    ) { $0.tcp.uploadRate = $2.rateSize($1) },
    .line(
      "proxy_download_rate", .everyStream, .words(1...1, "RATE"), initial: "0",
      "Bytes per second that are read from the upstream; 0 means no limit. It can have variables.",
      example: "proxy_download_rate 1m;", trust: .none
    ) { $0.tcp.downloadRate = $2.rateSize($1) },
    .line(
      "proxy_next_upstream", .everyStream, .flag, initial: "on",
      "Whether a connection goes to the next server of the group if one can't be reached or isn't trusted.",
      example: "proxy_next_upstream off;", trust: .none
    ) { pass, line, _ in if Flag(line.text(0)) == false { pass.retry.conditions = [] } },
  ]

  /// The rows that `http` has too.
  private static let shared = ProxyPass.rows.filter(\.entry.contexts.isOfStream)

  static let variables = [
    FeatureVariable(ofSession: "upstream_first_byte_time", "Seconds until the upstream's first byte.") {
      session, output in
      (session.handler as? TCPHandler)?.appendTime(\.headAt, to: &output)
    },
    FeatureVariable(ofSession: "upstream_session_time", "Seconds of the session with the upstream.") {
      session, output in
      (session.handler as? TCPHandler)?.appendTime(\.endedAt, to: &output)
    },
  ]
}

extension StreamProxy {
  static func judge(_ level: Level, _ builder: inout SettingsBuilder) { ChosenTargetRule.judge(level, &builder) }

  static func readPass(_ draft: inout PassDraft, _ builder: inout SettingsBuilder) {
    let scope = draft.scope
    draft.target.host = draft.url.authority?.nameForTLS ?? ""
    shared.read(scope, into: &draft.settings, &builder)
    rows.read(scope, into: &draft.settings, &builder)
    draft.settings.origin.header = ProxyPass.headerForm(scope, &builder)
    draft.settings.buffers.total = draft.settings.buffers.head
    draft.settings.buffers.collectsRequests = false
    draft.settings.tcp.bufferSize = draft.settings.buffers.head
    if let line = alpn.line(in: scope) {
      draft.settings.tcp.offeredProtocols = line.hasVariables ? line.arguments.map { builder.template($0) } : []
      // As in nginx, "" takes the place of the names outside, and is none.
      let names = line.arguments.filter { !$0.text.isEmpty }
      draft.offeredProtocols = line.hasVariables ? [] : OfferedProtocols.names(names, of: line, &builder)
    }
  }

  private static func streamTarget(_ directive: Directive, _ scheme: UpstreamScheme, _ builder: inout SettingsBuilder)
    -> PassedURL?
  {
    guard let word = directive.arguments.first else { return nil }
    if word.text.contains("$") {
      return PassedURL(authority: nil, target: .template(builder.template(word), scheme), uri: nil, base: word.text)
    }
    do throws(Authority.ParseError) {
      let authority = try Authority(parsing: word.text)
      if let form = dialect.portForm { try builder.requirePort(of: authority, form) }
      guard let index = try builder.target(authority, scheme, directive) else { return nil }
      return PassedURL(authority: authority, target: .group(index, scheme), uri: nil, base: word.text)
    } catch {
      builder.error(word.location, "\(error.reason) in \"proxy_pass\" directive: \"\(word.text)\"", hint: error.hint)
      return nil
    }
  }
}
