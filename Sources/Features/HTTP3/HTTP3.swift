import Forward
import Language
import Traffic

/// HTTP/3 (nginx: ngx_http_v3_module), which sallyport doesn't speak: a client of a server block that has it speaks HTTP/2
/// too, over TCP.
enum HTTP3: DirectiveFeature {
  static let chapter = Chapter.http
  private static let heads: DirectiveContexts = [.http, .server]
  private static let reason = "clients are served HTTP/1.1 and HTTP/2, over TCP"

  static let directives: [DirectiveEntry] =
    [
      "http3", "http3_hq", "http3_max_concurrent_streams", "http3_stream_buffer_size",
      "quic_active_connection_id_limit", "quic_gso", "quic_host_key", "quic_retry", "quic_stream_buffer_size",
    ].map { .inert($0, heads, because: reason) } + [.inert("quic_bpf", .main, because: reason)]

  /// `$http3`, which is empty in a request over TCP.
  static let variables = [FeatureVariable("http3", "Empty, because requests come over TCP.") { _, _ in }]
}
