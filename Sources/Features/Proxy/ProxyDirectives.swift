package import Language

private let levels = DirectiveContexts.everyHTTP
private let ofAnotherProtocol = "sallyport speaks no such protocol to upstreams"
private let both = levels.union(.everyStream)

/// The upstream side of a location (nginx: ngx_http_proxy_module).
package let proxyDirectives: [DirectiveEntry] = [
  .local(
    "proxy_pass", [.location, .locationIf, .limitExcept], .words(1...1, "http[s]://ADDRESS[URI]"),
    "Forwards requests to an upstream. Variables can name it, and its scheme too (`proxy_pass $target`). A request that they lead to an https upstream gets 502 if the location has no trust settings.",
    example: "proxy_pass http://127.0.0.1:8080;", trust: .told
  ).option("--to"),
  .value(
    "proxy_http_version", levels, .oneOf(["1.0", "1.1", "2"]), "1.1", "The HTTP version for upstreams.",
    example: "proxy_http_version 1.1;"),
  .value(
    "proxy_method", levels, .words(1...1, "METHOD"), "", "The method to send instead of the client's.",
    example: "proxy_method POST;"),
  .list(
    "proxy_set_header", levels, .words(2...2, "FIELD VALUE"), "Host $proxy_host",
    "Sets a field of the request to the upstream; an empty value removes the field. Of several lines for a field that a request has once, such as Host, the last one with a value counts; Host is never removed.",
    example: "proxy_set_header X-Client $ssl_client_s_dn;", trust: .told),
  .value(
    "proxy_pass_request_headers", levels, .flag, "on", "Whether to forward the client's fields.",
    example: "proxy_pass_request_headers off;"),
  .value(
    "proxy_pass_request_body", levels, .flag, "on", "Whether to forward the client's body.",
    example: "proxy_pass_request_body off;"),
  .value(
    "proxy_set_body", levels, .words(1...1, "TEXT"), "",
    "The body that the upstream gets in place of the client's, with its length. The client's body is read first.",
    example: "proxy_set_body \"id=$request_id\";", trust: .told),
  .list(
    "proxy_hide_header", levels, .words(1...1, "FIELD"), "",
    "A field of the response that sallyport doesn't forward to the client.", example: "proxy_hide_header X-Powered-By;"),
  .list(
    "proxy_pass_header", levels, .words(1...1, "FIELD"), "",
    "A field of the response that sallyport forwards although it hides the field by default.",
    example: "proxy_pass_header Server;"),
  .value(
    "proxy_pass_trailers", levels, .flag, "on (nginx: off)",
    "Whether the client gets the trailers of the upstream's response. With `off`, it doesn't get the field Trailer either.",
    example: "proxy_pass_trailers off;", trust: .none),
  .value(
    "proxy_ignore_headers", levels,
    .someOf([
      "X-Accel-Redirect", "X-Accel-Expires", "X-Accel-Limit-Rate", "X-Accel-Buffering", "X-Accel-Charset", "Expires",
      "Cache-Control", "Set-Cookie", "Vary",
    ]), "",
    "Fields of the response that sallyport doesn't act on. It acts on no field that concerns caches or character sets, so that these can be named without effect.",
    example: "proxy_ignore_headers X-Accel-Redirect X-Accel-Limit-Rate;", trust: .told),
  .list(
    "proxy_redirect", levels, .words(1...2, "default | off | FROM TO"), "default",
    "Rewrites Location and Refresh in the response; FROM is the beginning of the URL, or a regular expression after `~` or `~*`.",
    example: "proxy_redirect http://app.internal/ /;"),
  .list(
    "proxy_cookie_domain", levels, .words(1...2, "off | FROM TO"), "off",
    "Rewrites the domain of the upstream's cookies; FROM is a domain, or a regular expression after `~`.",
    example: "proxy_cookie_domain internal.example example.com;"),
  .list(
    "proxy_cookie_path", levels, .words(1...2, "off | FROM TO"), "off",
    "Rewrites the path of the upstream's cookies; FROM is the path's beginning, or a regular expression after `~` or `~*`.",
    example: "proxy_cookie_path /app/ /;"),
  .list(
    "proxy_cookie_flags", levels, .words(1...Int.max, "off | COOKIE [FLAG …]"), "off",
    "Sets (`secure`, `httponly`, `samesite=…`) or removes (`nosecure`, `nohttponly`, `nosamesite`) flags of the upstream's cookies; COOKIE is a name, or a regular expression after `~`.",
    example: "proxy_cookie_flags session secure httponly;"),
  .value(
    "proxy_intercept_errors", levels, .flag, "off", "Whether `error_page` also applies to the upstream's errors.",
    example: "proxy_intercept_errors on;"),
  .value(
    "proxy_buffering", levels, .flag, "on",
    "How much of a response can wait for a slow client: `on`, as much as `proxy_buffers`; `off`, one `proxy_buffer_size`. sallyport always forwards data as it arrives. X-Accel-Buffering has no effect.",
    example: "proxy_buffering off;", trust: .none),
  .value(
    "proxy_buffer_size", both, .size, "16k (nginx: 4k)",
    "The maximum size of a response head; in stream, how many bytes of a side wait for the other one.",
    example: "proxy_buffer_size 32k;", trust: .none),
  .value(
    "proxy_buffers", levels, .buffers, "8 8k", "How much of a response can wait for a client.",
    example: "proxy_buffers 16 8k;", trust: .none),
  .value(
    "proxy_limit_rate", levels, .words(1...1, "SIZE"), "0",
    "Bytes per second of a response that sallyport reads from the upstream, with variables if need be; 0 means no limit. It has no effect with `proxy_buffering off`.",
    example: "proxy_limit_rate 1m;"),
  .value(
    "proxy_bind", both, .words(1...2, "ADDRESS[:PORT] | off"), "off",
    "The local address of connections to upstreams, with variables if need be. A kept connection serves only requests with the same local address. A value that is no address is answered with 500 (nginx: connects from another address). `transparent` isn't supported.",
    example: "proxy_bind 192.0.2.1;", trust: .told),
  .value(
    "proxy_protocol", both, .words(1...2, "on | off | v2 [certificate]"), "off",
    "Begins each connection to an upstream with a header of the PROXY protocol, before TLS (nginx: stream module only). `on` sends version 1. `v2` sends version 2, with PP2_TYPE_SSL, and of a verified client the CN and the SHA-256 hash of its public key (TLV 0xE0); `certificate` adds the certificate in DER (TLV 0xE1). The address is that of `$remote_addr`. Each request has a connection of its own.",
    example: "proxy_protocol v2;", trust: .told),
  .value(
    "proxy_socket_keepalive", both, .flag, "off",
    "Whether the system probes idle connections to upstreams (SO_KEEPALIVE).", example: "proxy_socket_keepalive on;"),
  .value(
    "proxy_socket_sndbuf", both, .size, "the system's",
    "The size of the system's send buffer for connections to upstreams.", example: "proxy_socket_sndbuf 256k;"),
  .value(
    "proxy_socket_rcvbuf", both, .size, "the system's",
    "The size of the system's receive buffer for connections to upstreams.", example: "proxy_socket_rcvbuf 256k;"),
  .value(
    "proxy_request_buffering", levels, .flag, "on", "Whether to read the whole body before contacting the upstream.",
    example: "proxy_request_buffering off;", trust: .none),
  .value(
    "proxy_connect_timeout", both, .milliseconds, "60s", "The time limit for connecting, including the handshake.",
    example: "proxy_connect_timeout 5s;", trust: .none),
  .value(
    "proxy_send_timeout", levels, .milliseconds, "60s", "The time limit between two writes to the upstream.",
    example: "proxy_send_timeout 30s;", trust: .none),
  .value(
    "proxy_read_timeout", levels, .milliseconds, "60s", "The time limit between two reads from the upstream.",
    example: "proxy_read_timeout 5m;", trust: .none),
  .value(
    "proxy_next_upstream", levels,
    .someOf([
      "error", "timeout", "invalid_header", "http_500", "http_502", "http_503", "http_504", "http_403", "http_404",
      "http_429", "non_idempotent", "off", "updating",
    ]), "error timeout",
    "When sallyport tries another server. A RST_STREAM of an upstream in place of a response is `invalid_header`, as in"
      + " nginx; one that says that the request was not processed is also `error`.",
    example: "proxy_next_upstream error timeout http_503;"),
  .value(
    "proxy_next_upstream_tries", both, .number(0...1000), "0",
    "The maximum number of tries; 0 means no limit but the number of servers.", example: "proxy_next_upstream_tries 3;"),
  .value(
    "proxy_next_upstream_timeout", both, .milliseconds, "0", "The time limit for all tries; 0 means no limit.",
    example: "proxy_next_upstream_timeout 10s;"),
  .value(
    "proxy_ignore_client_abort", levels, .flag, "off",
    "Whether the exchange continues if the client closes the connection.", example: "proxy_ignore_client_abort on;"),
  .inert("proxy_cache", levels, .oneOf(["off"]), because: noCache),
  .inert("proxy_cache_bypass", levels, because: noCache),
  .inert("proxy_no_cache", levels, because: noCache),
  .inert("proxy_busy_buffers_size", levels, because: "sallyport always sends what it can"),
  .inert("proxy_max_temp_file_size", levels, because: "responses are never written to disk"),
  .inert("proxy_temp_file_write_size", levels, because: "responses are never written to disk"),
  .inert("proxy_temp_path", levels, because: "responses are never written to disk"),
  .inert("fastcgi_temp_path", levels, because: ofAnotherProtocol),
  .inert("scgi_temp_path", levels, because: ofAnotherProtocol),
  .inert("uwsgi_temp_path", levels, because: ofAnotherProtocol),
  .inert("proxy_headers_hash_bucket_size", levels, because: "fields are not kept in a hash of fixed size"),
  .inert("proxy_headers_hash_max_size", levels, because: "fields are not kept in a hash of fixed size"),
  .inert("proxy_send_lowat", levels, because: "it has no meaning on Linux"),
]
