private let levels = DirectiveContexts.everyHTTP

/// The upstream side of a location (nginx: ngx_http_proxy_module).
let proxyDirectives: [DirectiveEntry] = [
  .local("proxy_pass", .location, .words(1...1, "http[s]://ADDRESS[URI]"), "Sends requests to an upstream."),
  .value("proxy_http_version", levels, .oneOf(["1.0", "1.1"]), "1.0", "The version spoken to upstreams."),
  .value("proxy_method", levels, .words(1...1, "METHOD"), "", "The method in place of the client's."),
  .list(
    "proxy_set_header", levels, .words(2...2, "FIELD VALUE"), "Host $proxy_host; Connection close",
    "A field of the request to the upstream; an empty value leaves it out."),
  .value("proxy_pass_request_headers", levels, .flag, "on", "The client's fields go on."),
  .value("proxy_pass_request_body", levels, .flag, "on", "The client's body goes on."),
  .list("proxy_hide_header", levels, .words(1...1, "FIELD"), "", "A field of the response that the client won't see."),
  .list("proxy_pass_header", levels, .words(1...1, "FIELD"), "", "A field of the response that the client does see."),
  .list(
    "proxy_redirect", levels, .words(1...2, "default | off | FROM TO"), "default",
    "Rewrites Location and Refresh of the response."),
  .value("proxy_intercept_errors", levels, .flag, "off", "`error_page` is for the upstream's errors too."),
  .value(
    "proxy_buffering", levels, .flag, "on",
    "A response goes on as it comes, either way; `on` lets `proxy_buffers` of it wait for a slow client, `off` one "
      + "`proxy_buffer_size`. X-Accel-Buffering changes nothing."),
  .value("proxy_buffer_size", levels, .size, "16k (nginx: 4k)", "The largest head of a response."),
  .value("proxy_buffers", levels, .buffers, "8 8k", "How much of a response may wait for a client."),
  .value("proxy_request_buffering", levels, .flag, "on", "The body is read before the upstream is asked."),
  .value("proxy_connect_timeout", levels, .milliseconds, "60s", "For the connection, its handshake included."),
  .value("proxy_send_timeout", levels, .milliseconds, "60s", "Between two writes to the upstream."),
  .value("proxy_read_timeout", levels, .milliseconds, "60s", "Between two reads from the upstream."),
  .value(
    "proxy_next_upstream", levels,
    .someOf([
      "error", "timeout", "invalid_header", "http_500", "http_502", "http_503", "http_504", "http_403", "http_404",
      "http_429", "non_idempotent", "off", "updating",
    ]), "error timeout", "When another server is tried."),
  .value("proxy_next_upstream_tries", levels, .number(0...1000), "0", "How many are tried; 0 is all."),
  .value("proxy_next_upstream_timeout", levels, .milliseconds, "0", "For how long; 0 is without bound."),
  .value("proxy_ignore_client_abort", levels, .flag, "off", "A client that goes away does not end the exchange."),
  .inert("proxy_busy_buffers_size", levels, because: "what can be sent is sent"),
  .inert("proxy_max_temp_file_size", levels, because: "responses are never written to disk"),
  .inert("proxy_temp_file_write_size", levels, because: "responses are never written to disk"),
  .inert("proxy_temp_path", levels, because: "responses are never written to disk"),
  .inert("proxy_headers_hash_bucket_size", levels, because: "fields are not kept in a hash of fixed size"),
  .inert("proxy_headers_hash_max_size", levels, because: "fields are not kept in a hash of fixed size"),
  .inert("proxy_socket_keepalive", levels, because: "the read and send timeouts find a dead upstream"),
  .inert("proxy_send_lowat", levels, because: "it has no meaning on Linux"),
]

/// `upstream` blocks (nginx: ngx_http_upstream_module, ngx_http_upstream_keepalive_module).
let upstreamDirectives: [DirectiveEntry] = [
  .local("upstream", .http, .block(1...1, "NAME"), "A group of servers that `proxy_pass` can name.", repeatable: true),
  .local(
    "server", .upstream,
    .words(1...Int.max, "ADDRESS [weight=N] [max_fails=N] [fail_timeout=TIME] [max_conns=N] [backup] [down]"),
    "One server of the group.", repeatable: true),
  .local("keepalive", .upstream, .words(1...1, "NUMBER"), "", "Idle connections a worker keeps for the group."),
  .local("keepalive_requests", .upstream, .number(0...Int.max), "1000", "Requests of one kept connection."),
  .local("keepalive_time", .upstream, .milliseconds, "1h", "How long a kept connection serves in all."),
  .local("keepalive_timeout", .upstream, .milliseconds, "60s", "How long a kept connection may idle."),
  .inert("zone", .upstream, because: "workers are threads of one process; a group's state is each worker's own"),
]
