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
  private static let names = PassNames(
    prefix: "grpc_",
    taken: PassNames.words(
      """
      set_header hide_header pass_header ignore_headers intercept_errors buffer_size bind via socket_keepalive
      socket_sndbuf socket_rcvbuf connect_timeout send_timeout read_timeout allow_upstream next_upstream
      next_upstream_tries next_upstream_timeout
      """), takesTLS: true, whole: header.name)

  static let dialect: PassDialect = {
    var dialect = PassDialect(name: "gRPC", prefix: names.prefix)
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

  static let directives: [DirectiveEntry] =
    [
      .local(
        "grpc_pass", [.location, .locationIf], .words(1...1, "[grpc[s]://]ADDRESS"),
        "Forwards requests to a gRPC upstream, over HTTP/2. A client's `grpc-timeout` limits the request, and sallyport's own errors are answered as `grpc-status`. A variable's value can have a scheme; without one it is not over TLS.",
        example: "grpc_pass grpc://127.0.0.1:50051;", trust: .told)
    ]
    + names.directives.map { row in
      var row = row
      if row.name == "grpc_set_header" { row.initial = "Host $proxy_host; TE trailers (from a client that sends it)" }
      return row
    } + [header]

  private static let header = DirectiveEntry.value(
    "grpc_proxy_protocol", .everyHTTP, .words(1...2, "on | off | v2 [certificate]"), "off",
    "The same as `proxy_protocol`, for gRPC upstreams.", example: "grpc_proxy_protocol v2;")

  static func answer(_ failure: ErrorResponse, _ exchange: Exchange) -> Bool {
    guard let call = GRPCCall(exchange) else { return false }
    call.answer(failure)
    return true
  }

  static func view(_ scope: Scope) -> Scope { names.view(scope) }

  static func tellingLines(_ scope: Scope) -> (inEffect: [Directive], own: [Directive]) {
    let view = view(scope)
    return (view.setFieldLines, view.ownSetFieldLines)
  }

  /// Builds a `grpc_pass` like a `proxy_pass` of HTTP/2.
  static func pass(_ line: Directive, _ level: Level, _ builder: inout SettingsBuilder) -> UpstreamPass? {
    names.pass(line, level, dialect, &builder) { _, _ in [GRPCCalls()] }
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
