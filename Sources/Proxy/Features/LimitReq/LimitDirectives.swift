package import Language

private let levels = DirectiveContexts.everyHTTP

/// Limits (nginx: limit_req, limit_conn and core modules).
package let limitDirectives: [DirectiveEntry] = [
  .local(
    "limit_req_zone", .http, .words(3...3, "KEY zone=NAME:SIZE rate=NUMBERr/s|NUMBERr/m"),
    "A zone for `limit_req`: the rate that each value of the key may have. All workers share it, and a reload keeps the"
      + " states of a zone with the same name, key and size. A megabyte holds about 5,000 states (nginx: 8,000); a full"
      + " zone forgets the one used least recently. `$ssl_client_spki` as the key limits each client identity.",
    repeatable: true, example: "limit_req_zone $binary_remote_addr zone=z:10m rate=10r/s;", trust: .told),
  .list(
    "limit_req", levels, .words(1...3, "zone=NAME [burst=NUMBER] [nodelay | delay=NUMBER]"), "",
    "Delays requests above the zone's rate, and refuses those above `burst`. A request with an empty key isn't limited.",
    example: "limit_req zone=r burst=20 nodelay;", trust: .told),
  .value(
    "limit_req_dry_run", levels, .flag, "off", "Counts and logs the requests that `limit_req` limits, and passes them.",
    example: "limit_req_dry_run on;"),
  .value(
    "limit_req_status", levels, .number(400...599), "503", "The status of a request that `limit_req` refuses.",
    example: "limit_req_status 429;"),
  .value(
    "limit_req_log_level", levels, .oneOf(["info", "notice", "warn", "error"]), "error",
    "The level of a refusal's line in the error log; a delay's line is one level less severe.",
    example: "limit_req_log_level warn;"),
  .local(
    "limit_conn_zone", .http, .words(2...2, "KEY zone=NAME:SIZE"),
    "A zone for `limit_conn`. All workers share it, and a reload keeps it. If no further key fits, the request is"
      + " refused.", repeatable: true, example: "limit_conn_zone $binary_remote_addr zone=z:10m;", trust: .told),
  .list(
    "limit_conn", levels, .words(2...2, "ZONE NUMBER"), "",
    "The number of requests with one value of the zone's key that may be in progress. Each stream of HTTP/2 counts,"
      + " until the client has taken the response.", example: "limit_conn c 10;", trust: .told),
  .value(
    "limit_conn_dry_run", levels, .flag, "off",
    "Counts and logs the requests that `limit_conn` limits, and passes them.", example: "limit_conn_dry_run on;"),
  .value(
    "limit_conn_status", levels, .number(400...599), "503", "The status of a request that `limit_conn` refuses.",
    example: "limit_conn_status 429;"),
  .value(
    "limit_conn_log_level", levels, .oneOf(["info", "notice", "warn", "error"]), "error",
    "The level of a refusal's line in the error log.", example: "limit_conn_log_level warn;"),
  .value(
    "limit_rate", levels, .words(1...1, "SIZE"), "0",
    "Bytes per second of a response, with variables if need be; 0 means no limit. `set $limit_rate` and the upstream's"
      + " X-Accel-Limit-Rate take precedence. It counts the body alone (nginx: the head, too).",
    example: "limit_rate 512k;"),
  .value(
    "limit_rate_after", levels, .words(1...1, "SIZE"), "0", "Bytes of a response that go before `limit_rate` applies.",
    example: "limit_rate_after 1m;"),
]
