import Forward
import Language
import Observability
import Traffic

/// HTTP/2 towards clients (nginx: ngx_http_v2_module). How it is spoken stands in Client.
enum HTTP2: Feature {
  private static let name = "http2"
  static let chapter = Chapter.http
  private static let levels = DirectiveContexts.everyHTTP
  private static let heads: DirectiveContexts = [.http, .server]

  private static let rows: [Row<HTTP2Settings>] = [
    .flag(
      name, heads, \.isOn,
      "Whether clients may speak HTTP/2: by ALPN, or without TLS from the first byte. A request over HTTP/2 for a server"
        + " block without it gets 421.", example: "http2 on;"),
    .number(
      "http2_max_concurrent_streams", heads, 1...1_000_000, \.concurrentStreams,
      "The maximum number of requests in progress on a connection.", example: "http2_max_concurrent_streams 64;"),
    .size(
      "http2_body_preread_size", heads, \.bodyPrereadSize,
      "How much of a request body a client may send before the upstream takes it.",
      example: "http2_body_preread_size 128k;"),
    .inert("http2_chunk_size", levels, because: "a frame of a response is as large as the client allows"),
    .inert("http2_recv_buffer_size", .http, because: "every connection reads into one buffer of its worker"),
    .inert("http2_pool_size", heads, because: "streams have no memory pools"),
    .inert("http2_streams_index_size", heads, because: "libnghttp2 finds the streams"),
    .inert("http2_idle_timeout", heads, because: "it is obsolete: `keepalive_timeout` applies"),
    .inert("http2_recv_timeout", heads, because: "it is obsolete: `client_header_timeout` applies"),
    .inert("http2_max_requests", heads, because: "it is obsolete: `keepalive_requests` applies"),
    .inert("http2_max_field_size", heads, because: "it is obsolete: `large_client_header_buffers` applies"),
    .inert("http2_max_header_size", heads, because: "it is obsolete: `large_client_header_buffers` applies"),
    .inert("http2_push", levels, because: "it is obsolete: no browser takes pushed responses"),
    .inert("http2_push_preload", levels, because: "it is obsolete: no browser takes pushed responses"),
    .inert("http2_max_concurrent_pushes", heads, because: "it is obsolete: no browser takes pushed responses"),
  ]
  static let directives = rows.entries

  static let listenParameters = [
    ListenParameter(name) { word, line, builder in
      line.isHTTP2 = true
      builder.warning(
        word.location, "the \"listen ... http2\" directive is deprecated, use the \"http2\" directive instead",
        hint: "write \"http2 on;\" in the server")
    }
  ]

  static func read(_ block: inout ServerBlock, _ builder: inout SettingsBuilder) {
    guard block.kind == .http else { return }
    rows.read(block.scope, into: &block.http2, &builder)
    if block.listensHTTP2 { block.http2.isOn = true }
  }
}
