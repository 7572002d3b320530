import Configuration

/// What differs between two configurations and has no sentence of its own: `check --diff` must not say that nothing has
/// changed when it has not looked.
enum SilentDifference {
  /// Directives whose effect the other comparisons tell in words.
  private static let told: Set<String> = [
    "http", "server", "location", "upstream", "if", "limit_except", "map", "geo", "split_clients", "listen",
    "server_name", "ssl_verify_client", "ssl_verify_depth", "ssl_verify_report_only", "ssl_crl",
    "ssl_client_certificate", "ssl_trusted_certificate", "ssl_client_allow", "ssl_client_deny", "ssl_protocols",
    "ssl_ciphers", "ssl_early_data", "allow", "deny", "auth_basic", "auth_basic_user_file", "satisfy", "internal",
    "set_real_ip_from", "real_ip_header", "real_ip_recursive", "rewrite", "set", "return", "break", "error_page",
    "auth_request", "auth_request_set", "mirror", "message_signature", "message_signature_key",
    "message_signature_components", "message_signature_max_age", "message_signature_nonce", "root", "proxy_pass",
    "grpc_pass", "proxy_ssl_verify", "proxy_ssl_verify_name", "proxy_ssl_name", "proxy_ssl_trusted_certificate",
    "proxy_ssl_pin", "proxy_ssl_pin_report_only", "proxy_ssl_allow_invalid", "proxy_ssl_certificate",
    "proxy_ssl_certificate_key", "proxy_set_header", "client_identity", "proxy_auth", "proxy_auth_user_file",
    "message_envelope", "proxy_bind", "proxy_protocol", "proxy_set_body", "proxy_ignore_headers", "limit_req",
    "limit_req_zone", "limit_conn", "limit_conn_zone", "client_max_body_size", "underscores_in_headers",
    "ignore_invalid_headers", "merge_slashes", "ssl_reject_handshake", "ssl_ecdh_curve", "proxy_ssl_ecdh_curve",
    "grpc_ssl_ecdh_curve",
  ]

  /// Directives that change neither who gets in nor where a request goes.
  private static let harmless: Set<String> = [
    "access_log", "open_log_file_cache", "log_format", "error_log", "log_not_found", "log_subrequest", "rewrite_log",
    "worker_processes",
    "worker_connections", "worker_rlimit_nofile", "worker_shutdown_timeout", "events", "pid", "server_tokens",
    "client_queue_timeout", "ssl_handshake_limit", "keepalive_timeout", "keepalive_requests", "keepalive_time",
    "client_header_timeout",
    "client_body_timeout", "client_body_min_rate",
    "send_timeout", "proxy_connect_timeout", "proxy_read_timeout", "proxy_send_timeout", "proxy_buffering",
    "proxy_buffer_size", "proxy_buffers", "proxy_request_buffering", "client_body_buffer_size", "types",
    "default_type", "gzip", "gzip_types", "gzip_comp_level", "gzip_min_length", "gzip_vary", "expires", "charset",
    "charset_types", "sendfile",
    "tcp_nopush", "tcp_nodelay", "types_hash_max_size", "lingering_close", "lingering_time", "lingering_timeout",
    "ssl_certificate_cache", "proxy_ssl_certificate_cache", "grpc_ssl_certificate_cache", "proxy_pass_trailers",
    "ssl_expiry_warning", "ssl_certificate_compression",
  ]

  static func compare(_ old: String, _ new: String, _ found: inout TrustChanges) {
    let names = StatementCounts(path: new).names(differingFrom: StatementCounts(path: old))
      .subtracting(told).subtracting(harmless)
    guard !names.isEmpty else { return }
    found.other("this report doesn't compare these directives, which differ: \(names.sorted().joined(separator: ", "))")
  }
}
