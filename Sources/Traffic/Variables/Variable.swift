public import Transport

/// A variable of nginx's language that an exchange can answer. Names are nginx's, without `$`.
///
/// Why an enum: a template is compiled at load, so that no name is looked up per request.
public enum Variable: Sendable, Hashable {
  /// Those without a parameter.
  case simple(SimpleVariable)
  /// $arg_NAME; NAME is matched without case.
  case argument([UInt8])
  /// $http_NAME, lower-case, with `_` for `-`.
  case requestField([UInt8])
  /// $cookie_NAME
  case cookie([UInt8])
  /// $sent_http_NAME
  case sentField([UInt8])
  /// $sent_trailer_NAME
  case sentTrailer([UInt8])
  /// $upstream_http_NAME
  case upstreamField([UInt8])
  /// $upstream_trailer_NAME
  case upstreamTrailer([UInt8])
  /// $upstream_cookie_NAME
  case upstreamCookie([UInt8])
  /// $1 to $9: of the last regular expression that matched.
  case capture(Int)
  /// The same in the query or the address that `rewrite` makes: escaped, if the request's path was.
  case escapedCapture(Int)
  /// A variable made by `set` or by a named capture; an index into the exchange's slots.
  case slot(Int)
  /// A field's or an argument's variable that `set` sets somewhere. Until it does, the variable has its own value.
  indirect case settable(slot: Int, Variable)
  /// What follows a folder in the value of a slot. A value that doesn't begin with it has a NUL in its place, which no path
  /// has: then there is no file.
  case belowFolder([UInt8], slot: Int)
  /// That of a feature.
  case feature(FeatureVariable)
  /// $proxy_protocol_tlv_NAME
  case proxyTLV(ProxyTLV)
}

/// The raw value is nginx's name.
public enum SimpleVariable: String, Sendable, Hashable, CaseIterable {
  // request
  case args, query_string, is_args, uri, document_uri, request_uri, request, request_method, request_length
  case request_time, request_id, request_completion, host, scheme, https, server_protocol, http2
  case content_length, content_type, request_body, request_body_file, request_port, is_request_port
  // answer
  case status, bytes_sent, body_bytes_sent
  // connection
  case connection, connection_requests, connection_time, pipe, msec, pid, hostname, time_local, time_iso8601
  case nginx_version
  case server_addr, server_port, remote_addr, remote_port, binary_remote_addr, remote_user
  case realip_remote_addr, realip_remote_port
  case tcpinfo_rtt, tcpinfo_rttvar, tcpinfo_snd_cwnd, tcpinfo_rcv_space
  case proxy_protocol_addr, proxy_protocol_port, proxy_protocol_server_addr, proxy_protocol_server_port
  // proxy
  case proxy_host, proxy_port, proxy_add_x_forwarded_for
  // upstream
  case upstream_addr, upstream_status, upstream_connect_time, upstream_header_time, upstream_response_time
  case upstream_response_length, upstream_bytes_sent, upstream_bytes_received, upstream_cache_status
  case upstream_ssl_result, upstream_ssl_spki
  // TLS
  case ssl_protocol, ssl_cipher, ssl_ciphers, ssl_curve, ssl_curves, ssl_server_name, ssl_session_id
  case ssl_session_reused, ssl_alpn_protocol, ssl_sigalg, ssl_sigalgs, ssl_client_sigalg
  case ssl_client_verify, ssl_client_cert, ssl_client_raw_cert, ssl_client_escaped_cert
  case ssl_client_s_dn, ssl_client_i_dn, ssl_client_s_dn_legacy, ssl_client_i_dn_legacy, ssl_client_serial
  case ssl_client_fingerprint, ssl_client_v_start, ssl_client_v_end
  // ours
  case ssl_client_s_dn_cn, ssl_client_san_dns, ssl_client_san_uri, ssl_client_san_email, ssl_client_san_ip
  case ssl_client_spki, ssl_post_quantum
  // all workers
  case connections_active, connections_reading, connections_writing, connections_waiting
}

extension SimpleVariable {
  /// Whether `stream` has it too: what is known of a connection that carries no requests.
  package var isOfStream: Bool {
    switch self {
    case .status, .bytes_sent, .connection, .msec, .pid, .hostname, .time_local, .time_iso8601, .nginx_version,
      .server_addr, .server_port, .remote_addr, .remote_port, .binary_remote_addr, .realip_remote_addr,
      .realip_remote_port, .proxy_protocol_addr, .proxy_protocol_port, .proxy_protocol_server_addr,
      .proxy_protocol_server_port, .upstream_addr, .upstream_connect_time, .upstream_bytes_sent,
      .upstream_bytes_received, .upstream_ssl_result, .upstream_ssl_spki,
      .ssl_protocol, .ssl_cipher, .ssl_ciphers, .ssl_curve, .ssl_curves, .ssl_server_name, .ssl_session_id,
      .ssl_session_reused, .ssl_alpn_protocol, .ssl_sigalg, .ssl_sigalgs, .ssl_client_sigalg, .ssl_client_verify,
      .ssl_client_cert, .ssl_client_raw_cert, .ssl_client_escaped_cert, .ssl_client_s_dn, .ssl_client_i_dn,
      .ssl_client_s_dn_legacy, .ssl_client_i_dn_legacy, .ssl_client_serial, .ssl_client_fingerprint,
      .ssl_client_v_start, .ssl_client_v_end, .ssl_client_s_dn_cn, .ssl_client_san_dns, .ssl_client_san_uri,
      .ssl_client_san_email, .ssl_client_san_ip, .ssl_client_spki, .ssl_post_quantum:
      true
    default: false
    }
  }

  /// Whether nginx has no variable of that name, so that a configuration of nginx's may define it.
  package var isOursAlone: Bool {
    switch self {
    case .ssl_client_s_dn_cn, .ssl_client_san_dns, .ssl_client_san_uri, .ssl_client_san_email, .ssl_client_san_ip,
      .ssl_client_spki, .ssl_post_quantum,
      .upstream_ssl_result, .upstream_ssl_spki:
      true
    default: false
    }
  }
}

/// Text with variables, compiled at load: `"https://$host$request_uri"`.
public struct Template: Sendable, Hashable {
  public enum Part: Sendable, Hashable {
    case literal([UInt8])
    case variable(Variable)
  }

  public let parts: [Part]

  public init(_ parts: [Part]) { self.parts = parts }

  public init(literal: String) { self.init(literal.isEmpty ? [] : [.literal(Array(literal.utf8))]) }

  /// The bytes when there is no variable in it.
  public var constant: [UInt8]? {
    guard let first = parts.first else { return [] }
    return if parts.count == 1, case .literal(let bytes) = first { bytes } else { nil }
  }

  /// Whether the text is empty, whatever a request is.
  public var isEmpty: Bool { parts.isEmpty }

  /// Whether some of the text is the same for all requests, so that no value is empty.
  public var hasLiteral: Bool { parts.contains { if case .literal = $0 { true } else { false } } }

  /// Whether the text begins with a slash, whatever its variables are.
  public var beginsWithSlash: Bool { if case .literal(let bytes)? = parts.first { bytes.first == 0x2F } else { false } }

  /// Whether any part is a variable for which this holds.
  public func uses(where predicate: (Variable) -> Bool) -> Bool {
    parts.contains {
      if case .variable(let variable) = $0 { predicate(variable) } else { false }
    }
  }
}
