import Observability
import Upstream

extension LiveGeneration {
  /// Gives meters to the servers and groups, if a location shows what they count. Former meters are taken over by name;
  /// those of nothing that is left are put aside.
  package func meter(_ counters: WorkerCounters) {
    var former = counters.withMeters { table in
      defer { table = MeterTable() }
      return table
    }
    former.add(counters.withFormerMeters { $0 })
    if generation.http.showsMetrics { takeMeters(counters, from: former) }
    let used = counters.withMeters { $0 }
    counters.withFormerMeters { table in
      table = former
      table.leave(to: used)
    }
  }

  private func takeMeters(_ counters: WorkerCounters, from former: MeterTable) {
    let series = ServerSeries.all(of: generation.http)
    counters.withMeters { table in
      for (live, series) in zip(servers, series) {
        if live.settings.stream != nil {
          let meter = table.sessions[series] ?? former.sessions[series] ?? SessionMeter()
          table.sessions[series] = meter
          live.sessionMeter = meter
          continue
        }
        let meter = table.requests[series] ?? former.requests[series] ?? RequestMeter()
        table.requests[series] = meter
        live.meter = meter
      }
      // `GroupMeters` takes from these what the groups need. What no group has is dropped below.
      table.attempts = former.attempts
      table.exhausted = former.exhausted
    }
    let meters = GroupMeters(counters)
    for part in parts.all { part.meter(meters) }
    let variable = [false, true].map { UpstreamSeries.variable(isOfStream: $0) }
    let names = Set(generation.groups.map(\.settings.fullName) + variable.map(\.upstream))
    var known = Set(variable)
    for group in generation.groups {
      known.formUnion(group.servers.map { UpstreamSeries(group.settings, $0) })
      known.formUnion(
        group.settings.servers.map { UpstreamSeries(upstream: group.settings.fullName, server: $0.spelling) })
    }
    // Those that the API has added are in no line.
    for group in groups { known.formUnion(group.servers.map { UpstreamSeries(group.settings, $0) }) }
    counters.withMeters { table in
      table.exhausted = table.exhausted.filter { names.contains($0.key) }
      table.attempts = table.attempts.filter { known.contains($0.key) }
    }
  }
}

extension HTTPSettings {
  /// Whether some location shows metrics, so that requests are counted.
  var showsMetrics: Bool {
    servers.contains { server in
      server.root.withNested.contains { $0.features.contains(where: \.showsCounts) }
    }
  }
}

extension ServerSeries {
  /// By index in the configuration's servers.
  fileprivate static func all(of http: HTTPSettings) -> [ServerSeries] {
    http.servers.indices.map { ServerSeries($0, of: http) }
  }

  /// `index`: in the configuration's servers.
  package init(_ index: Int, of http: HTTPSettings) {
    let addresses = http.listeners(ofServer: index).map(\.address.description)
    self.init(server: http.servers[index].primaryName, listen: addresses.joined(separator: ","))
  }
}
