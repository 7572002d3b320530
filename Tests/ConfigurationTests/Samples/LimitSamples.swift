extension DirectiveSample {
  /// The samples of the limits, whose zones are declared in the http block.
  static let limits: [String: DirectiveSample] = {
    let zones = "limit_req_zone $remote_addr zone=r:1m rate=2r/s; limit_conn_zone $remote_addr zone=c:1m; "
    let request = "limit_req zone=r;"
    let connection = "limit_conn c 3;"
    return [
      "client_body_min_rate": .init("client_body_min_rate 500;"),
      "client_queue_timeout": .init("client_queue_timeout 7s;"),
      "ssl_handshake_limit": .init("ssl_handshake_limit 7 per_address=3;"),
      "limit_req_zone": .init(
        "limit_req_zone $remote_addr zone=z:1m rate=2r/m;", or: "limit_req_zone $remote_addr zone=z:1m rate=1r/s;",
        location: pass + anchors + name + "limit_req zone=z;"),
      "limit_req": .init("limit_req zone=r burst=2 delay=1;", http: zones),
      "limit_req_dry_run": .init("limit_req_dry_run on;", beside: request, http: zones),
      "limit_req_status": .init("limit_req_status 429;", beside: request, http: zones),
      "limit_req_log_level": .init("limit_req_log_level info;", beside: request, http: zones),
      "limit_conn_zone": .init(
        "limit_conn_zone $remote_addr zone=z:1m;", or: "limit_conn_zone $remote_addr zone=z:2m;",
        location: pass + anchors + name + "limit_conn z 1;"),
      "api": .init("api;", location: ""),
      "keyval_zone": .init("keyval_zone zone=tenants:32k timeout=1m;", or: "keyval_zone zone=tenants:64k;"),
      "keyval": .init(
        "keyval $host $tenant zone=tenants;", or: "keyval $uri $tenant zone=tenants;",
        http: "keyval_zone zone=tenants:32k;"),
      "shared_store": .init(
        "shared_store s redis://127.0.0.1:6379 timeout=1s;", or: "shared_store s redis://127.0.0.1:6380;"),
      "enrolment_failures_store": .init(
        "enrolment_failures_store main fail=closed;", or: "enrolment_failures_store main;",
        http: "shared_store main redis://127.0.0.1:6379;"),
      "limit_conn": .init("limit_conn c 7;", http: zones),
      "limit_conn_dry_run": .init("limit_conn_dry_run on;", beside: connection, http: zones),
      "limit_conn_status": .init("limit_conn_status 429;", beside: connection, http: zones),
      "limit_rate": .init("limit_rate 7k;"),
      "limit_rate_after": .init("limit_rate_after 7k;"),
      "limit_conn_log_level": .init("limit_conn_log_level info;", beside: connection, http: zones),
    ]
  }()
}
