import Traffic

extension LogFormat {
  /// The members of the format `json` and their variables, in the order of a line. Those without quotation marks are
  /// always numbers. A status of 000 (no response) is 0, because JSON has no leading zeros.
  private static let members: [(name: String, variable: String, isNumber: Bool)] = [
    ("time", "time_iso8601", false), ("msec", "msec", true), ("request_id", "request_id", false),
    ("connection", "connection", true), ("connection_requests", "connection_requests", true),
    ("remote_addr", "remote_addr", false), ("remote_user", "remote_user", false), ("server", "server_name", false),
    ("host", "host", false), ("method", "request_method", false), ("uri", "request_uri", false),
    ("protocol", "server_protocol", false), ("status", "status", true), ("request_bytes", "request_length", true),
    ("bytes", "bytes_sent", true), ("body_bytes", "body_bytes_sent", true), ("request_time", "request_time", true),
    ("upstream_addr", "upstream_addr", false), ("upstream_status", "upstream_status", false),
    ("upstream_connect_time", "upstream_connect_time", false),
    ("upstream_header_time", "upstream_header_time", false), ("upstream_time", "upstream_response_time", false),
    ("upstream_tls", "upstream_ssl_result", false), ("tls", "ssl_protocol", false),
    ("tls_group", "ssl_curve", false), ("post_quantum", "ssl_post_quantum", false), ("sni", "ssl_server_name", false),
    ("client_subject", "ssl_client_s_dn", false), ("client_issuer", "ssl_client_i_dn", false),
    ("client_serial", "ssl_client_serial", false), ("client_fingerprint", "ssl_client_fingerprint", false),
    ("client_verify", "ssl_client_verify", false), ("client_verdict", "ssl_client_verdict", false),
    ("referer", "http_referer", false), ("user_agent", "http_user_agent", false),
  ]

  /// `{"time":"$time_iso8601",…}` for `escape=json`. `further`: what the configuration's features add.
  static func json(_ further: LoggedMembers) -> String {
    let all = members + further.all.map { ($0.name, $0.variable, false) }
    return "{"
      + all.map { "\"\($0.name)\":" + ($0.isNumber ? "${\($0.variable)}" : "\"${\($0.variable)}\"") }
      .joined(separator: ",") + "}"
  }
}
