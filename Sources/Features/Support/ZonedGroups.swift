import Forward
import Observability
import Traffic
package import Upstream

extension LiveGeneration {
  /// The groups with `zone` that the configuration names.
  package var zonedGroups: [UpstreamGroup] {
    guard let groups = self[LiveGroups.self] else { return [] }
    let stores = Set(generation.http.sharedStores.map(\.group))
    return groups.all.indices.filter { !stores.contains($0) && groups.all[$0].settings.zone != nil }
      .compactMap { groups.newest($0) }
  }
}

extension RuntimeOverrides {
  /// Called in the worker's loop, whose groups it asks.
  init(_ exchange: Exchange) {
    self.init()
    denials = exchange.worker.shared.denials.all()
    logLevel = exchange.worker.metrics.process.logLevels?.current
    servers = exchange.session.live.zonedGroups.flatMap { Self.changes(of: $0) }
      .sorted { ($0.upstream, $0.server, $0.change) < ($1.upstream, $1.server, $1.change) }
  }

  private static func changes(of group: UpstreamGroup) -> [Server] {
    let upstream = group.settings.name
    let overrides = group.members.flatMap { member in
      member.overrides.map { Server(upstream: upstream, server: "\(member.address)", change: $0.name, value: $0.value) }
    }
    // With `state`, the servers that the API added are those of the group.
    guard group.settings.stateFile == nil else { return overrides }
    let (added, removed) = group.changedServers
    return overrides + added.map { Server(upstream: upstream, server: "\($0)", change: "added") }
      + removed.map { Server(upstream: upstream, server: "\($0)", change: "removed") }
  }
}
