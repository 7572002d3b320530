package import Language
import Observability

private let levels = DirectiveContexts.everyHTTP
private let heads: DirectiveContexts = [.http, .server]

/// Servers, locations and their responses (nginx: core, rewrite, access, headers and log modules).
package enum CoreHTTP: DirectiveFeature {
  package static let chapter = Chapter.http

  package static let definitions: [String: Definition] = [
    "location": { directive, defined in
      if let (pattern, word, caseless) = LocationSpelling.pattern(directive) {
        defined.compile(pattern, at: word, caseless: caseless, what: "location")
      }
    }
  ]

  fileprivate static let internalLine = DirectiveEntry.local(
    "internal", .location, .none, "Allows only internal redirects to this location and to those inside it.",
    example: "internal;", trust: .told)

  private static let blocks: [DirectiveEntry] = [
    .local(
      "server", .http, .block(0...0, ""), "A server: addresses, names and locations.", repeatable: true,
      example: "server { listen 80; return 301 https://$host$request_uri; }", trust: .told),
    .local(
      "location", [.server, .location], .block(1...2, "[= | ~ | ~* | ^~] PATH | @NAME"),
      "Settings for the requests whose paths match.", repeatable: true,
      example: "location /api/ { proxy_pass http://127.0.0.1:8080; }", trust: .told),
    internalLine,
  ]

  private static let keepalive: [Row<LocationLimits>] = [
    .line(
      "keepalive_timeout", levels, .words(1...2, "TIME [TIME]"),
      initial: Quantity.spelling(ofMilliseconds: LocationLimits().keepaliveTimeout),
      "The maximum idle time of a client's connection.", example: "keepalive_timeout 30s;", trust: .none
    ) { limits, line, builder in
      if let timeout = Quantity.milliseconds(line.text(0)) {
        limits.keepaliveTimeout = timeout
      } else {
        builder.refuse(line, 0, hint: "it must be \(Expected.milliseconds)")
      }
      guard line.arguments.count > 1 else { return }
      limits.keepaliveAnnounced = Quantity.seconds(line.text(1))
      if limits.keepaliveAnnounced == nil { builder.refuse(line, 1, hint: "it must be \(Expected.seconds)") }
    },
    .number(
      "keepalive_requests", levels, 0...Int.max, \.keepaliveRequests,
      "The maximum number of requests on a client's connection.", example: "keepalive_requests 10000;", trust: .none),
    .milliseconds(
      "keepalive_time", levels, \.keepaliveTime, "The maximum total time of a client's connection.",
      example: "keepalive_time 10m;", trust: .none),
    .inert("keepalive_min_timeout", levels, because: "a drain gives each idle connection one second"),
  ]

  static let head: [Row<ClientHeadSettings>] = [
    .milliseconds(
      "client_header_timeout", heads, \.timeout, "The time limit for reading a request head.",
      example: "client_header_timeout 10s;", trust: .none),
    .inert(
      "client_header_buffer_size", heads, because: "a head's memory grows with it, up to `large_client_header_buffers`"),
    .buffers(
      "large_client_header_buffers", heads, \.buffers, \.bufferSize,
      "The buffers for a request head: a line must fit into one, the head into all of them. Over HTTP/2, a name and a value"
        + " must each fit into one, and the names and values together into all.",
      example: "large_client_header_buffers 8 16k;"),
    .flag(
      "ignore_invalid_headers", heads, \.ignoresInvalidFields,
      "Whether to drop fields with invalid names; `off` forwards them.",
      example: "ignore_invalid_headers off;", trust: .told),
    .flag(
      "underscores_in_headers", heads, \.underscoresInFields, "Whether field names can contain an underscore.",
      example: "underscores_in_headers on;", trust: .told),
    .number(
      "max_headers", heads, 1...100_000, \.fields,
      "The maximum number of fields in a request head; more get 400. Over HTTP/2, pseudo-fields and cookies don't count.",
      example: "max_headers 100;"),
    mergeSlashes,
  ]

  fileprivate static let mergeSlashes = Row<ClientHeadSettings>.flag(
    "merge_slashes", heads, \.mergesSlashes, "Whether several consecutive slashes in a path count as one.",
    example: "merge_slashes off;", trust: .told)

  private static let sending: [Row<LocationLimits>] = [
    .milliseconds(
      "send_timeout", levels, \.sendTimeout, "The time limit between two writes to a client.",
      example: "send_timeout 30s;", trust: .none),
    .choice(
      "lingering_close", levels, ["on": true, "off": false, "always": true], \.lingeringClose,
      "Whether to read remaining data before closing a connection, or resetting a stream of HTTP/2.",
      example: "lingering_close off;", trust: .none),
    .milliseconds(
      "lingering_time", levels, \.lingeringTime, "How long sallyport reads remaining data in total.",
      example: "lingering_time 10s;", trust: .none),
    .milliseconds(
      "lingering_timeout", levels, \.lingeringTimeout, "How long sallyport waits for more remaining data.",
      example: "lingering_timeout 2s;", trust: .none),
    .flag(
      "reset_timedout_connection", levels, \.resetsTimedOut, "Whether to reset a connection that timed out.",
      example: "reset_timedout_connection on;"),
  ]

  static let redirects: [Row<RedirectSettings>] = [
    .choice(
      "server_tokens", levels, ["on": true, "off": false, "build": true], \.serverTokens,
      "Whether to show the version.",
      example: "server_tokens off;", trust: .none),
    .flag(
      "absolute_redirect", levels, \.absolute, "Whether redirects contain scheme and host.",
      example: "absolute_redirect off;"),
    .flag(
      "port_in_redirect", levels, \.portIn, "Whether redirects contain the port.", example: "port_in_redirect off;"),
    .flag(
      "server_name_in_redirect", levels, \.serverNameIn,
      "Whether redirects contain the server's name instead of the Host.", example: "server_name_in_redirect on;"),
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

  /// What bounds the requests of a level and their connections, but for what `ClientBody` says.
  static let limits = keepalive + sending + ResponseFraming.rows

  package static let directives =
    blocks + keepalive.entries + head.entries + sending.entries + redirects.entries
}

extension Scope {
  /// Whether only sallyport itself leads requests to the level (`internal`). As in nginx, it holds in the locations inside,
  /// too.
  package var isInternal: Bool { value(CoreHTTP.internalLine.name) != nil }

  /// The line in effect that keeps several slashes in a path apart; nil: they count as one.
  package var unmergedSlashes: Directive? {
    CoreHTTP.mergeSlashes.flag(in: self) == false ? CoreHTTP.mergeSlashes.line(in: self) : nil
  }
}

/// The framing of responses.
package enum ResponseFraming: DirectiveFeature {
  package static let chapter = Chapter.fields

  static let rows: [Row<LocationLimits>] = [
    .flag(
      "chunked_transfer_encoding", levels, \.chunkedResponses,
      "Whether a body of unknown length goes to HTTP/1.1 clients in chunks; with `off`, it ends with the connection.",
      example: "chunked_transfer_encoding off;")
  ]
  package static let directives = rows.entries
}
