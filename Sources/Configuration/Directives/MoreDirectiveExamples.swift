/// More of the examples of `DirectiveExamples`.
extension DirectiveExamples {
  /// How a group picks a server, and what goes to it.
  static let upstreams: [String: String] = [
    "hash": "hash $cookie_session consistent;",
    "ip_hash": "ip_hash;",
    "least_conn": "least_conn;",
    "least_time": "least_time header;",
    "random": "random two least_conn;",
    "sticky": "sticky cookie srv_id expires=1h path=/;",
    "upstream/zone": "zone backend 64k;",
    "proxy_pass_trailers": "proxy_pass_trailers off;",
    "open_log_file_cache": "open_log_file_cache max=100 inactive=20s valid=1m;",
    "proxy_set_body": "proxy_set_body \"id=$request_id\";",
    "proxy_bind": "proxy_bind 192.0.2.1;",
    "proxy_protocol": "proxy_protocol v2;",
    "grpc_proxy_protocol": "grpc_proxy_protocol v2;",
    "proxy_limit_rate": "proxy_limit_rate 1m;",
    "proxy_ignore_headers": "proxy_ignore_headers X-Accel-Redirect X-Accel-Limit-Rate;",
    "proxy_socket_keepalive": "proxy_socket_keepalive on;",
    "proxy_socket_sndbuf": "proxy_socket_sndbuf 256k;",
    "proxy_socket_rcvbuf": "proxy_socket_rcvbuf 256k;",
  ]

  /// Bodies, subrequests and signatures.
  static let requests: [String: String] = [
    "client_body_in_file_only": "client_body_in_file_only clean;",
    "client_body_temp_path": "client_body_temp_path /var/lib/sallyport/bodies;",
    "client_body_min_rate": "client_body_min_rate 500;",
    "client_queue_timeout": "client_queue_timeout 10s;",
    "ssl_expiry_warning": "ssl_expiry_warning 30d;",
    "ssl_handshake_limit": "ssl_handshake_limit 2000 per_address=200;",
    "max_headers": "max_headers 100;",
    "auth_request": "auth_request /oauth2/auth;",
    "auth_request_set": "auth_request_set $user $upstream_http_x_auth_request_user;",
    "mirror": "mirror /copy;",
    "mirror_request_body": "mirror_request_body off;",
    "log_subrequest": "log_subrequest on;",
    "message_signature": "message_signature off;",
    "message_signature_key": "message_signature_key device-7 ed25519 device-7.pub;",
    "message_signature_components": "message_signature_components @method @target-uri content-digest client-cert;",
    "message_signature_max_age": "message_signature_max_age 1m skew=5s;",
    "message_signature_expires": "message_signature_expires 30s;",
    "message_signature_nonce": "message_signature_nonce on;",
    "message_signature_label": "message_signature_label device;",
  ]

  /// Small files and compression.
  static let files: [String: String] = [
    "root": "root /var/www/html;",
    "alias": "alias /var/www/html/;",
    "index": "index index.html index.htm;",
    "try_files": "try_files $uri $uri/ /index.html;",
    "types": "types { text/html html; text/css css; }",
    "default_type": "default_type application/octet-stream;",
    "log_not_found": "log_not_found off;",
    "etag": "etag off;",
    "if_modified_since": "if_modified_since before;",
    "max_ranges": "max_ranges 1;",
    "gzip": "gzip on;",
    "gzip_types": "gzip_types text/css application/json;",
    "gzip_comp_level": "gzip_comp_level 5;",
    "gzip_min_length": "gzip_min_length 1k;",
    "gzip_http_version": "gzip_http_version 1.0;",
    "gzip_proxied": "gzip_proxied any;",
    "gzip_vary": "gzip_vary on;",
    "gzip_disable": "gzip_disable msie6;",
  ]
}
