import Bytes
import HTTP
import Language

/// gRPC towards upstreams (nginx: ngx_http_grpc_module). The rows are those of the proxy module and of TLS towards upstreams
/// under another prefix, since `grpc_pass` is built like `proxy_pass`; those that make no sense over gRPC are left out.
enum GRPC: Feature {
  static let chapter = Chapter.grpc

  /// The `grpc_pass` of the level itself; its settings are those of a `proxy_pass`.
  static func line(in scope: Scope) -> Directive? { scope.own("grpc_pass").first }

  /// nginx's `$grpc_internal_trailers`, which no configuration can name: the TE of a request to a gRPC upstream, which
  /// only a client sets that sends it.
  static let takenTrailers = FeatureVariable("grpc_internal_trailers") { exchange, output in
    if exchange.head.acceptsTrailers, exchange.head.first(.te) != nil { output.append("trailers") }
  }

  /// The `grpc_set_header` lines in effect.
  static func setFieldLines(_ scope: Scope) -> [Directive] { scope.list("grpc_set_header") }

  /// The directive that says for a `grpc_pass` what this one says for a `proxy_pass`. It need not exist.
  static func directive(for name: String) -> String {
    // `proxy_protocol` has no `proxy_` of its own to replace.
    name == "proxy_protocol" ? "grpc_proxy_protocol" : name.replacing("proxy_", with: "grpc_")
  }

  static let directives: [DirectiveEntry] =
    [
      .local(
        "grpc_pass", [.location, .locationIf], .words(1...1, "[grpc[s]://]ADDRESS"),
        "Forwards requests to a gRPC upstream, over HTTP/2. A client's `grpc-timeout` limits the request, and sallyport's own errors are answered as `grpc-status`. A variable's value can have a scheme; without one it is not over TLS.",
        example: "grpc_pass grpc://127.0.0.1:50051;", trust: .told)
    ] + (proxyDirectives + UpstreamTLS.directives).compactMap(\.inGRPC) + [
      .value(
        "grpc_proxy_protocol", .everyHTTP, .words(1...2, "on | off | v2 [certificate]"), "off",
        "The same as `proxy_protocol`, for gRPC upstreams.", example: "grpc_proxy_protocol v2;")
    ]
}
