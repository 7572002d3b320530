import Bytes
import Forward
import HTTP
import Language
import Observability
import Traffic
import Upstream

/// gRPC towards upstreams (nginx: ngx_http_grpc_module). A `grpc_pass` is a `proxy_pass` of HTTP/2 in another dialect, so the
/// rows are those of other features under another prefix, where they make sense over gRPC.
enum GRPC: UpstreamFeature, ErrorWording {
  static let chapter = Chapter.grpc
  private static let prefix = "grpc_", other = "proxy_"

  static let dialect: PassDialect = {
    var dialect = PassDialect(name: "gRPC", prefix: prefix)
    dialect.schemes = [("grpcs", .https), ("grpc", .http)]
    dialect.standardScheme = .http
    dialect.portForm = "grpc_pass [grpc[s]://]ADDRESS:PORT"
    dialect.version = .http2
    dialect.callsMethods = true
    dialect.standardFields = [("TE", Template([.variable(.feature(takenTrailers))]))]
    dialect.checkType = "grpc"
    return dialect
  }()

  /// nginx's `$grpc_internal_trailers`, which no configuration can name: the TE of a request to a gRPC upstream, which
  /// only a client sets that sends it.
  private static let takenTrailers = FeatureVariable("grpc_internal_trailers") { exchange, output in
    if exchange.head.acceptsTrailers, exchange.head.first(.te) != nil { output.append("trailers") }
  }

  /// The rows of the proxy module that nginx's grpc module has too.
  private static let taken: Set = [
    "grpc_set_header", "grpc_hide_header", "grpc_pass_header", "grpc_ignore_headers", "grpc_intercept_errors",
    "grpc_buffer_size", "grpc_bind", "grpc_socket_keepalive", "grpc_socket_sndbuf", "grpc_socket_rcvbuf",
    "grpc_connect_timeout", "grpc_send_timeout", "grpc_read_timeout", "grpc_next_upstream", "grpc_next_upstream_tries",
    "grpc_next_upstream_timeout",
  ]

  static let directives: [DirectiveEntry] =
    [
      .local(
        "grpc_pass", [.location, .locationIf], .words(1...1, "[grpc[s]://]ADDRESS"),
        "Forwards requests to a gRPC upstream, over HTTP/2. A client's `grpc-timeout` limits the request, and sallyport's own errors are answered as `grpc-status`. A variable's value can have a scheme; without one it is not over TLS.",
        example: "grpc_pass grpc://127.0.0.1:50051;", trust: .told)
    ]
    + Features.each.compactMap { ($0 as? any ForwardFeature.Type)?.asPass }.filter { $0.kinds.contains(.http) }
    .flatMap { $0.directives }.compactMap { row($0) } + [header]

  private static let header = DirectiveEntry.value(
    "grpc_proxy_protocol", .everyHTTP, .words(1...2, "on | off | v2 [certificate]"), "off",
    "The same as `proxy_protocol`, for gRPC upstreams.", example: "grpc_proxy_protocol v2;")

  static func answer(_ failure: ErrorResponse, _ exchange: Exchange) -> Bool {
    guard let call = GRPCCall(exchange) else { return false }
    call.answer(failure)
    return true
  }

  /// The row of another feature as gRPC has it; nil: it has none.
  private static func row(_ row: DirectiveEntry) -> DirectiveEntry? {
    guard row.name.hasPrefix(other) else { return nil }
    var own = row.renamed(other, prefix)
    guard taken.contains(own.name) || own.name.hasPrefix("grpc_ssl_") else { return nil }
    own.contexts.subtract(.everyStream)
    if own.name == "grpc_set_header" { own.initial = "Host $proxy_host; TE trailers (from a client that sends it)" }
    return own
  }

  /// Each directive `grpc_…` under the name `proxy_…`, and none of the proxy module.
  static func view(_ scope: Scope) -> Scope {
    scope.renamed { name in
      if name == header.name { return String(name.dropFirst(prefix.count)) }
      if name.hasPrefix(other) { return nil }
      return name.hasPrefix(prefix) ? other + name.dropFirst(prefix.count) : name
    }
  }

  /// The directive that says for a `grpc_pass` what this one says for a `proxy_pass`. It need not exist.
  private static func directive(for name: String) -> String {
    // `proxy_protocol` has no `proxy_` of its own to replace.
    prefix + name == header.name ? header.name : name.replacing(other, with: prefix)
  }

  /// Builds a `grpc_pass` like a `proxy_pass` of HTTP/2. Messages about its directives have their names.
  static func pass(_ line: Directive, _ level: Level, _ builder: inout SettingsBuilder) -> UpstreamPass? {
    let others = builder.features.ofUpstream(.http).compactMap { $0.line(in: level.scope)?.name }
    if let idle = level.scope.directives.first(where: { $0.name.hasPrefix(other) && !others.contains($0.name) }) {
      let own = directive(for: idle.name)
      let isRow = builder.features.table.entries(named: own).contains { $0.status == .supported }
      builder.warning(
        idle.location, "\"\(idle.name)\" has no effect on grpc_pass",
        hint: isRow ? "write \(own)" : "leave it out: it is not for gRPC")
    }
    let before = builder.diagnostics.count
    let viewed = level.mapping(view)
    let pass = builder.passedURL(line, viewed, dialect).map {
      builder.pass(line, viewed, $0, dialect, parts: [GRPCCalls()])
    }
    for index in before..<builder.diagnostics.count { builder.diagnostics[index].replace(other, with: prefix) }
    return pass
  }
}

/// A pass whose requests are calls.
struct GRPCCalls: PassPart {
  func compile(_ parts: inout PassParts, _ makers: LiveMakers) { parts.requestHooks.append(GRPCDeadline()) }
}

/// A client's `grpc-timeout` limits all attempts together.
private final class GRPCDeadline: RequestHook {
  override func begin(_ exchange: Exchange, _ handler: ProxyHandler) throws(ErrorResponse) -> ExchangeHook? {
    if let timeout = GRPCCall(exchange)?.timeout {
      handler.attempt.limit(to: timeout) { [weak handler] in
        if let exchange = handler?.exchange { GRPCCall(exchange)?.deadlinePassed() }
      }
    }
    return nil
  }
}
