import Forward
import Observability
import Traffic
import Transport
import Upstream

extension HealthChecks {
  /// Each checked server once, however many checks concern it; nothing without checks.
  static func measure(_ snapshot: MetricsSnapshot, _ page: inout MetricsWriter) {
    let records = snapshot.generation[HealthRecords.self]
    let servers = records.byServer.map { server, checks in
      (
        server: server, checks: checks,
        series: UpstreamSeries(upstream: server.group, server: server.address.description)
      )
    }.sorted { $0.series < $1.series }
    guard !servers.isEmpty else { return }
    page[.upstreams].family("sallyport_upstream_server_up", .gauge, "Whether a server is up by its health checks.")
    for (_, checks, series) in servers {
      page[.upstreams].sample(
        "sallyport_upstream_server_up", series.labels(), Int64(checks.allSatisfy(\.isUp) ? 1 : 0))
    }
    page[.upstreams].family(
      "sallyport_upstream_health_checks_total", .counter, "Health checks of a server, by their result.")
    for (server, _, series) in servers {
      for result in ServerHealth.Result.allCases {
        page[.upstreams].sample(
          "sallyport_upstream_health_checks_total",
          series.labels(result: result.rawValue),
          records.count(result, of: server))
      }
    }
  }

  static func serversUp(_ generation: Generation) -> [UpstreamSeries: Bool] {
    generation[HealthRecords.self].byServer.reduce(into: [:]) { health, entry in
      health[UpstreamSeries(upstream: entry.key.group, server: entry.key.address.description)] =
        entry.value.allSatisfy(\.isUp)
    }
  }
}
