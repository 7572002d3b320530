import Observability
import Traffic

extension APILocation {
  /// A group has a bounded number of servers. The certificates that are denied have no series of their own.
  static func measure(_ snapshot: MetricsSnapshot, _ page: inout MetricsWriter) {
    let overrides = snapshot.overrides
    page[.upstreams].family(
      "sallyport_upstream_server_override", .gauge,
      "What requests to the API have set of a server: a number, seconds, or 1 for yes and 0 for no.")
    for server in overrides.servers {
      page[.upstreams].sample(
        "sallyport_upstream_server_override",
        ["upstream": server.upstream, "server": server.server, "setting": server.change], server.value)
    }
    page[.upstreams].gauge(
      "sallyport_client_denials", "Clients' certificates that the API denies for a time.", [:],
      Int64(overrides.denials.count))
    page[.process].gauge(
      "sallyport_error_log_override_seconds",
      "Seconds for which error logs still have a more detailed level by the API than by error_log.", [:],
      Int64(clamping: overrides.logLevel?.rest() ?? 0))
  }
}
