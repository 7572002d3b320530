/// Directives of nginx's and of its modules' that keep nobody out: a server is not more open without them.
enum NginxHarmless {
  private static let prefixes = [
    "proxy_cache", "proxy_store", "proxy_temp", "fastcgi_cache", "fastcgi_temp", "fastcgi_store", "uwsgi_cache",
    "uwsgi_temp",
    "uwsgi_store", "scgi_cache", "scgi_temp", "scgi_store", "brotli", "zstd", "image_filter_",
    "ssi_",
    "addition_",
    "vhost_traffic_status", "opentracing", "opentelemetry", "pagespeed", "http3", "quic", "status_",
    "upload_progress", "track_uploads", "fancyindex_", "geoip_proxy", "xslt_", "mp4_", "userid",
  ]
  private static let names: Set<String> = [
    "ssi", "brotli", "slice", "add_before_body", "add_after_body",
    "proxy_force_ranges", "post_action", "zone_sync", "queue", "check", "fair",
    "ssl_ech_file", "ssl_encrypted_hello_key", "ssl_key_log", "proxy_ssl_key_log", "grpc_ssl_key_log", "mail",
    "fancyindex", "add_header", "add_trailer", "more_set_headers", "more_clear_headers",
  ]

  static func contains(_ name: String) -> Bool {
    names.contains(name) || prefixes.contains { name.hasPrefix($0) }
  }

  /// What only names something that others use; each use is judged by itself.
  static func isDefinition(_ name: String) -> Bool {
    name.hasPrefix("lua_") || name.hasPrefix("init_") || name.hasPrefix("js_import") || name.hasPrefix("js_path")
      || name.hasPrefix("js_set") || name.hasPrefix("perl") || name.hasPrefix("geoip") || name.hasPrefix("geoip2")
      || name == "upstream" || name.hasSuffix("_zone")
  }
}
