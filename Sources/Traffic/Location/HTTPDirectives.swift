package import Language

private let levels = DirectiveContexts.everyHTTP
private let heads: DirectiveContexts = [.http, .server]

/// Servers, locations and their responses (nginx: core, rewrite, access, headers and log modules).
package enum CoreHTTP: Feature {
  package static let chapter = Chapter.http

  package static let definitions: [String: Definition] = [
    "location": { directive, defined in
      if let (pattern, word, caseless) = LocationSpelling.pattern(directive) {
        defined.compile(pattern, at: word, caseless: caseless, what: "location")
      }
    }
  ]

  package static let directives: [DirectiveEntry] = [
    .local(
      "server", .http, .block(0...0, ""), "A server: addresses, names and locations.", repeatable: true,
      example: "server { listen 80; return 301 https://$host$request_uri; }", trust: .told),
    .local(
      "location", [.server, .location], .block(1...2, "[= | ~ | ~* | ^~] PATH | @NAME"),
      "Settings for the requests whose paths match.", repeatable: true,
      example: "location /api/ { proxy_pass http://127.0.0.1:8080; }", trust: .told),
    .local(
      "internal", .location, .none, "Allows only internal redirects to this location and to those inside it.",
      example: "internal;",
      trust: .told
    ),
    .value(
      "keepalive_timeout", levels, .words(1...2, "TIME [TIME]"), "75s",
      "The maximum idle time of a client's connection.",
      example: "keepalive_timeout 30s;", trust: .none),
    .value(
      "keepalive_requests", levels, .number(0...Int.max), "1000",
      "The maximum number of requests on a client's connection.", example: "keepalive_requests 10000;", trust: .none),
    .value(
      "keepalive_time", levels, .milliseconds, "1h", "The maximum total time of a client's connection.",
      example: "keepalive_time 10m;", trust: .none),
    .value(
      "client_header_timeout", heads, .milliseconds, "60s", "The time limit for reading a request head.",
      example: "client_header_timeout 10s;", trust: .none),
    .inert(
      "client_header_buffer_size", heads, because: "a head's memory grows with it, up to `large_client_header_buffers`"),
    .value(
      "large_client_header_buffers", heads, .buffers, "4 8k",
      "The buffers for a request head: a line must fit into one, the head into all of them. Over HTTP/2, a name and a value"
        + " must each fit into one, and the names and values together into all.",
      example: "large_client_header_buffers 8 16k;"),
    .value(
      "ignore_invalid_headers", heads, .flag, "on", "Whether to drop fields with invalid names; `off` forwards them.",
      example: "ignore_invalid_headers off;", trust: .told),
    .value(
      "underscores_in_headers", heads, .flag, "off", "Whether field names can contain an underscore.",
      example: "underscores_in_headers on;", trust: .told),
    .value(
      "max_headers", heads, .number(1...100_000), "1000",
      "The maximum number of fields in a request head; more get 400. Over HTTP/2, pseudo-fields and cookies don't count.",
      example: "max_headers 100;"),
    .value(
      "merge_slashes", heads, .flag, "on", "Whether several consecutive slashes in a path count as one.",
      example: "merge_slashes off;", trust: .told),
    .value(
      "send_timeout", levels, .milliseconds, "60s", "The time limit between two writes to a client.",
      example: "send_timeout 30s;", trust: .none),
    .value(
      "lingering_close", levels, .oneOf(["on", "off", "always"]), "on",
      "Whether to read remaining data before closing a connection.", example: "lingering_close off;", trust: .none),
    .value(
      "lingering_time", levels, .milliseconds, "30s", "How long sallyport reads remaining data in total.",
      example: "lingering_time 10s;", trust: .none),
    .value(
      "lingering_timeout", levels, .milliseconds, "5s", "How long sallyport waits for more remaining data.",
      example: "lingering_timeout 2s;", trust: .none),
    .value(
      "reset_timedout_connection", levels, .flag, "off", "Whether to reset a connection that timed out.",
      example: "reset_timedout_connection on;"),
    .value(
      "server_tokens", levels, .oneOf(["on", "off", "build"]), "on", "Whether to show the version.",
      example: "server_tokens off;", trust: .none),
    .value(
      "absolute_redirect", levels, .flag, "on", "Whether redirects contain scheme and host.",
      example: "absolute_redirect off;"),
    .value(
      "port_in_redirect", levels, .flag, "on", "Whether redirects contain the port.", example: "port_in_redirect off;"),
    .value(
      "server_name_in_redirect", levels, .flag, "off",
      "Whether redirects contain the server's name instead of the Host.",
      example: "server_name_in_redirect on;"),
    .inert("tcp_nopush", levels, because: "sallyport sends related data in one call"),
    .inert("tcp_nodelay", levels.union(.everyStream), because: "it is always on"),
    .inert("send_lowat", levels, because: "it has no meaning on Linux"),
    .inert("postpone_output", levels, because: "sallyport sends related data in one call"),
    .inert("client_body_in_single_buffer", levels, because: "a body in memory is always one buffer"),
    .inert("connection_pool_size", heads, because: "memory is not kept in pools"),
    .inert("request_pool_size", heads, because: "memory is not kept in pools"),
    .inert("variables_hash_max_size", [.http, .stream], because: "variables are resolved at load"),
    .inert("variables_hash_bucket_size", [.http, .stream], because: "variables are resolved at load"),
    .inert("subrequest_output_buffer_size", levels, because: "the body of a subrequest's response is never kept"),
    .inert("msie_padding", levels, because: "current browsers do not need it"),
    .inert("msie_refresh", levels, because: "current browsers do not need it"),
    .inert("keepalive_disable", levels, because: "current browsers do not need it"),
  ]
}

/// The framing of responses.
package enum ResponseFraming: Feature {
  package static let chapter = Chapter.fields

  package static let directives: [DirectiveEntry] = [
    .value(
      "chunked_transfer_encoding", levels, .flag, "on",
      "Whether a body of unknown length goes to HTTP/1.1 clients in chunks; with `off`, it ends with the connection.",
      example: "chunked_transfer_encoding off;")
  ]
}
