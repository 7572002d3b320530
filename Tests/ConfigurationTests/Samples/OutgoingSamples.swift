extension DirectiveSample {
  /// The samples of what goes to an upstream: body, connection and pace.
  static let outgoing: [String: DirectiveSample] = [
    "proxy_ignore_headers": .init("proxy_ignore_headers X-Accel-Limit-Rate vary;"),
    "proxy_allow_upstream": .init("proxy_allow_upstream $arg_a;"),
    "proxy_pass_trailers": .init("proxy_pass_trailers off;"),
    "proxy_set_body": .init("proxy_set_body a$arg_b;"),
    "proxy_limit_rate": .init("proxy_limit_rate 7k;"),
    "proxy_bind": .init("proxy_bind $server_addr;", or: "proxy_bind 127.0.0.1;"),
    "proxy_via": .init("proxy_via http://127.0.0.1:3128 user_file=user;", or: "proxy_via http://127.0.0.1:3128;"),
    "proxy_protocol": .init("proxy_protocol v2 certificate;", or: "proxy_protocol on;"),
    "grpc_proxy_protocol": .init(
      "grpc_proxy_protocol v2;",
      location: "grpc_pass grpcs://u; grpc_ssl_trusted_certificate ca.pem; grpc_ssl_name u.test; "),
    "proxy_socket_keepalive": .init("proxy_socket_keepalive on;"),
    "proxy_socket_sndbuf": .init("proxy_socket_sndbuf 7k;"),
    "proxy_socket_rcvbuf": .init("proxy_socket_rcvbuf 7k;"),
    "client_body_in_file_only": .init("client_body_in_file_only clean;", or: "client_body_in_file_only on;"),
    "client_body_temp_path": .init("client_body_temp_path bodies;"),
    "max_headers": .init("max_headers 7;"),
  ]
}
