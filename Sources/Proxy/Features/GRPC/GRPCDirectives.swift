import Language

/// gRPC towards upstreams (nginx: ngx_http_grpc_module). The rows are those of the proxy module and of TLS towards upstreams
/// under another prefix, since `grpc_pass` is built like `proxy_pass`; those that make no sense over gRPC are left out.
enum GRPC: Feature {
  static let chapter = Chapter.grpc

  /// The `grpc_pass` of the level itself; its settings are those of a `proxy_pass`.
  static func line(in scope: Scope) -> Directive? { scope.own("grpc_pass").first }

  static let directives: [DirectiveEntry] =
    [
      .local(
        "grpc_pass", [.location, .locationIf], .words(1...1, "[grpc[s]://]ADDRESS"),
        "Forwards requests to a gRPC upstream, over HTTP/2. A client's `grpc-timeout` limits the request, and sallyport's own errors are answered as `grpc-status`. A variable's value can have a scheme; without one it is not over TLS.",
        example: "grpc_pass grpc://127.0.0.1:50051;", trust: .told)
    ] + (proxyDirectives + upstreamTLSDirectives).compactMap { $0.inGRPC } + [
      .value(
        "grpc_proxy_protocol", .everyHTTP, .words(1...2, "on | off | v2 [certificate]"), "off",
        "The same as `proxy_protocol`, for gRPC upstreams.", example: "grpc_proxy_protocol v2;")
    ]
}

extension DirectiveEntry {
  private static let left: Set<String> = [
    "proxy_pass", "proxy_http_version", "proxy_method", "proxy_pass_request_headers", "proxy_pass_request_body",
    "proxy_pass_trailers",
    "proxy_cookie_domain", "proxy_cookie_path", "proxy_cookie_flags",
    "proxy_redirect", "proxy_buffering", "proxy_buffers", "proxy_request_buffering", "proxy_ignore_client_abort",
    "proxy_busy_buffers_size", "proxy_max_temp_file_size", "proxy_temp_file_write_size", "proxy_temp_path",
    "proxy_headers_hash_bucket_size", "proxy_headers_hash_max_size", "proxy_send_lowat", "proxy_set_body",
    "proxy_limit_rate", "proxy_protocol", "proxy_cache", "proxy_cache_bypass", "proxy_no_cache",
  ]

  fileprivate var inGRPC: DirectiveEntry? {
    guard !Self.left.contains(name) else { return nil }
    return inGRPC(
      named: "grpc_" + name.dropFirst("proxy_".count),
      initial: name == "proxy_set_header" ? "Host $proxy_host; TE trailers" : initial)
  }
}
