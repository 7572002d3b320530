import Forward
import Language
import Traffic
import Transport
import Upstream

private let levels = DirectiveContexts.everyHTTP
private let both = levels.union(.everyStream)

/// proxy_pass of `http` (nginx: ngx_http_proxy_module).
enum ProxyPass: UpstreamFeature, PassFeature {
  static let chapter = Chapter.proxy
  static let dialect = PassDialect(name: "HTTP", prefix: "proxy_")

  static func pass(_ line: Directive, _ level: Level, _ builder: inout SettingsBuilder) -> UpstreamPass? {
    builder.passedURL(line, level, dialect).map { builder.pass(line, level, $0, dialect) }
  }

  static func tellingLines(_ scope: Scope) -> (inEffect: [Directive], own: [Directive]) {
    (scope.setFieldLines, scope.ownSetFieldLines)
  }

  static func judge(_ level: Level, _ builder: inout SettingsBuilder) {
    LostFieldsRule.judge(level, &builder)
    ChosenTargetRule.judge(level, &builder)
  }

  static let pass = DirectiveEntry.local(
    "proxy_pass", [.location, .locationIf, .limitExcept], .words(1...1, "http[s]://ADDRESS[URI]"),
    "Forwards requests to an upstream. Variables can name it, and its scheme too (`proxy_pass $target`). A request that they lead to an https upstream gets 502 if the location has no trust settings.",
    example: "proxy_pass http://127.0.0.1:8080;", trust: .told
  ).option("--to")
  static let httpVersion = Row<PassSettings>.choice(
    "proxy_http_version", levels, ["1.0": .http10, "1.1": .http11, "2": .http2], \.version,
    "The HTTP version for upstreams.",
    example: "proxy_http_version 1.1;")
  static let setHeader = DirectiveEntry.list(
    "proxy_set_header", levels, .words(2...2, "FIELD VALUE"), "Host $proxy_host",
    "Sets a field of the request to the upstream; an empty value removes the field. Of several lines for a field that a request has once, such as Host, the last one with a value counts; Host is never removed.",
    example: "proxy_set_header X-Client $ssl_client_s_dn;", trust: .told)
  static let passesFields = Row<PassSettings>.flag(
    "proxy_pass_request_headers", levels, \.request.passesFields, "Whether to forward the client's fields.",
    example: "proxy_pass_request_headers off;")
  static let passesBody = Row<PassSettings>.flag(
    "proxy_pass_request_body", levels, \.request.passesBody, "Whether to forward the client's body.",
    example: "proxy_pass_request_body off;")
  static let ownBody = Row<PassSettings>.template(
    "proxy_set_body", levels, "TEXT", \.request.body,
    "The body that the upstream gets in place of the client's, with its length. The client's body is read first.",
    example: "proxy_set_body \"id=$request_id\";", trust: .told)
  static let hiddenField = DirectiveEntry.list(
    "proxy_hide_header", levels, .words(1...1, "FIELD"), "",
    "A field of the response that sallyport doesn't forward to the client.", example: "proxy_hide_header X-Powered-By;")
  static let passedField = DirectiveEntry.list(
    "proxy_pass_header", levels, .words(1...1, "FIELD"), "",
    "A field of the response that sallyport forwards although it hides the field by default.",
    example: "proxy_pass_header Server;")
  static let redirect = DirectiveEntry.list(
    "proxy_redirect", levels, .words(1...2, "default | off | FROM TO"), "default",
    "Rewrites Location and Refresh in the response; FROM is the beginning of the URL, or a regular expression after `~` or `~*`.",
    example: "proxy_redirect http://app.internal/ /;")
  static let cookieDomain = DirectiveEntry.list(
    "proxy_cookie_domain", levels, .words(1...2, "off | FROM TO"), "off",
    "Rewrites the domain of the upstream's cookies; FROM is a domain, or a regular expression after `~`.",
    example: "proxy_cookie_domain internal.example example.com;")
  static let cookiePath = DirectiveEntry.list(
    "proxy_cookie_path", levels, .words(1...2, "off | FROM TO"), "off",
    "Rewrites the path of the upstream's cookies; FROM is the path's beginning, or a regular expression after `~` or `~*`.",
    example: "proxy_cookie_path /app/ /;")
  static let cookieFlags = DirectiveEntry.list(
    "proxy_cookie_flags", levels, .words(1...Int.max, "off | COOKIE [FLAG …]"), "off",
    "Sets (`secure`, `httponly`, `samesite=…`) or removes (`nosecure`, `nohttponly`, `nosamesite`) flags of the upstream's cookies; COOKIE is a name, or a regular expression after `~`.",
    example: "proxy_cookie_flags session secure httponly;")
  static let limitRate = DirectiveEntry.value(
    "proxy_limit_rate", levels, .words(1...1, "SIZE"), "0",
    "Bytes per second of a response that sallyport reads from the upstream, with variables if need be; 0 means no limit. It has no effect with `proxy_buffering off`.",
    example: "proxy_limit_rate 1m;")
  static let header = DirectiveEntry.value(
    "proxy_protocol", both, .words(1...2, "on | off | v2 [certificate]"), "off",
    "Begins each connection to an upstream with a header of the PROXY protocol, before TLS (nginx: stream module only). `on` sends version 1. `v2` sends version 2, with PP2_TYPE_SSL, and of a verified client the CN and the SHA-256 hash of its public key (TLV 0xE0); `certificate` adds the certificate in DER (TLV 0xE1). The address is that of `$remote_addr`. Each request has a connection of its own.",
    example: "proxy_protocol v2;", trust: .told)
  static let requestBuffering = Row<PassSettings>.flag(
    "proxy_request_buffering", levels, \.buffers.collectsRequests,
    "Whether to read the whole body before contacting the upstream.",
    example: "proxy_request_buffering off;", trust: .none)

  static let directives = rows.entries
  static let rows: [Row<PassSettings>] = [
    Row(pass), httpVersion,
    .template(
      "proxy_method", levels, "METHOD", \.request.method, "The method to send instead of the client's.",
      example: "proxy_method POST;"),
    Row(setHeader), passesFields, passesBody, ownBody, Row(hiddenField), Row(passedField),
    .flag(
      "proxy_pass_trailers", levels, \.response.passesTrailers, initial: "on (nginx: off)",
      "Whether the client gets the trailers of the upstream's response. With `off`, it doesn't get the field Trailer either.",
      example: "proxy_pass_trailers off;", trust: .none),
    .line(
      "proxy_ignore_headers", levels,
      .someOf([
        "X-Accel-Redirect", "X-Accel-Expires", "X-Accel-Limit-Rate", "X-Accel-Buffering", "X-Accel-Charset", "Expires",
        "Cache-Control", "Set-Cookie", "Vary",
      ]), initial: "",
      "Fields of the response that sallyport doesn't act on. It acts on no field that concerns caches or character sets, so that these can be named without effect.",
      example: "proxy_ignore_headers X-Accel-Redirect X-Accel-Limit-Rate;", trust: .told
    ) { $0.response.ignoredFields = ignoredFields($1, &$2) },
    Row(redirect), Row(cookieDomain), Row(cookiePath), Row(cookieFlags),
    .flag(
      "proxy_intercept_errors", levels, \.response.interceptsErrors,
      "Whether `error_page` also applies to the upstream's errors.",
      example: "proxy_intercept_errors on;"),
    .flag(
      "proxy_buffering", levels, \.buffers.isOn,
      "How much of a response can wait for a slow client: `on`, as much as `proxy_buffers`; `off`, one `proxy_buffer_size`. sallyport always forwards data as it arrives. X-Accel-Buffering has no effect.",
      example: "proxy_buffering off;", trust: .none),
    .size(
      "proxy_buffer_size", both, \.buffers.head, initial: "16k (nginx: 4k)", limits: (1...(16 << 20), "from 1 to 16m"),
      "The maximum size of a response head; in stream, how many bytes of a side wait for the other one.",
      example: "proxy_buffer_size 32k;", trust: .none),
    .line(
      "proxy_buffers", levels, .buffers, initial: "8 8k", "How much of a response can wait for a client.",
      example: "proxy_buffers 16 8k;", trust: .none
    ) { if let (count, size) = $2.buffers($1) { $0.buffers.total = count * size } },
    Row(limitRate),
    .line(
      "proxy_bind", both, .words(1...2, "ADDRESS[:PORT] | off"), initial: "off",
      "The local address of connections to upstreams, with variables if need be. A kept connection serves only requests with the same local address. A value that is no address is answered with 500 (nginx: connects from another address). `transparent` isn't supported.",
      example: "proxy_bind 192.0.2.1;", trust: .told
    ) { readBind($1, into: &$0.origin, &$2) },
    Row(header),
    .flag(
      "proxy_socket_keepalive", both, \.origin.fixed.isKeptAlive,
      "Whether the system probes idle connections to upstreams (SO_KEEPALIVE).", example: "proxy_socket_keepalive on;"),
    .size(
      "proxy_socket_sndbuf", both, \.origin.fixed.sendBuffer, initial: "the system's",
      "The size of the system's send buffer for connections to upstreams.", example: "proxy_socket_sndbuf 256k;"),
    .size(
      "proxy_socket_rcvbuf", both, \.origin.fixed.receiveBuffer, initial: "the system's",
      "The size of the system's receive buffer for connections to upstreams.", example: "proxy_socket_rcvbuf 256k;"),
    requestBuffering,
    .milliseconds(
      "proxy_connect_timeout", both, \.timeouts.connect, "The time limit for connecting, including the handshake.",
      example: "proxy_connect_timeout 5s;", trust: .none),
    .milliseconds(
      "proxy_send_timeout", levels, \.timeouts.send, "The time limit between two writes to the upstream.",
      example: "proxy_send_timeout 30s;", trust: .none),
    .milliseconds(
      "proxy_read_timeout", levels, \.timeouts.read, "The time limit between two reads from the upstream.",
      example: "proxy_read_timeout 5m;", trust: .none),
    .line(
      "proxy_next_upstream", levels,
      .someOf([
        "error", "timeout", "invalid_header", "http_500", "http_502", "http_503", "http_504", "http_403", "http_404",
        "http_429", "non_idempotent", "off", "updating",
      ]), initial: "error timeout",
      "When sallyport tries another server. A RST_STREAM of an upstream in place of a response is `invalid_header`, as in"
        + " nginx; one that says that the request was not processed is also `error`.",
      example: "proxy_next_upstream error timeout http_503;"
    ) { pass, line, _ in
      let words = line.arguments.map { $0.text.lowercased() }
      pass.retry.conditions =
        words.contains("off") ? [] : RetryConditions(words.compactMap { RetryConditions.named[$0] })
    },
    .number(
      "proxy_next_upstream_tries", both, 0...1000, \.retry.tries,
      "The maximum number of tries; 0 means no limit but the number of servers.",
      example: "proxy_next_upstream_tries 3;"),
    .milliseconds(
      "proxy_next_upstream_timeout", both, \.retry.timeout, "The time limit for all tries; 0 means no limit.",
      example: "proxy_next_upstream_timeout 10s;"),
    .flag(
      "proxy_ignore_client_abort", levels, \.request.ignoresClientAbort,
      "Whether the exchange continues if the client closes the connection.", example: "proxy_ignore_client_abort on;"),
    .inert("proxy_busy_buffers_size", levels, because: "sallyport always sends what it can"),
    .inert("proxy_max_temp_file_size", levels, because: "responses are never written to disk"),
    .inert("proxy_temp_file_write_size", levels, because: "responses are never written to disk"),
    .inert("proxy_temp_path", levels, because: "responses are never written to disk"),
    .inert("proxy_headers_hash_bucket_size", levels, because: "fields are not kept in a hash of fixed size"),
    .inert("proxy_headers_hash_max_size", levels, because: "fields are not kept in a hash of fixed size"),
    .inert("proxy_send_lowat", levels, because: "it has no meaning on Linux"),
  ]
}
