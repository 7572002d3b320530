import Forward
import Observability
import TLS
import Traffic
import Transport
import Upstream

/// All health checks of a generation, and what they know of the servers.
///
/// The next generation takes over what is known of each server whose address and check have not changed.
struct HealthRecords: GenerationPart {
  /// One `health_check`, with the servers that it checks.
  struct Check: Sendable {
    let settings: HealthCheckSettings
    let pass: UpstreamPass
    let serverName: String
    let errorLogs: [ErrorLogSettings]
    let group: GroupName
    let servers: [(server: ResolvedGroup.Server, health: ServerHealth)]
  }

  /// What makes a check of a server the same one after a reload: all that it asks, and whom it trusts.
  private struct Key: Hashable {
    var group: GroupName
    var address: SocketAddress
    var check: HealthCheckSettings
    var scheme: UpstreamScheme
    var tls: UpstreamTLSSettings?
    var tlsName: Template
    var version: UpstreamVersion
    var timeouts: UpstreamTimeouts
    var fields: [SetField]
    var serverName: String
    var origin: OriginSettings
    var opening: UpstreamOpening?
  }

  /// A server as the metrics name it.
  struct Server: Hashable {
    let group: GroupName
    let address: SocketAddress
  }

  /// A server that the former checks had taken out of service, and that gets requests by the reload. Without a line, the
  /// last word of the error log would stay that the server is down.
  struct Relief: Sendable, Equatable {
    let server: Server
    let errorLogs: [ErrorLogSettings]
    /// The new configuration checks the server.
    let isChecked: Bool

    var reason: String {
      isChecked ? "a reload changed its health check, which begins anew" : "a reload took its health check away"
    }

    /// At the level of the line that said that the server is down.
    func tell(_ log: ErrorLog) {
      log.error("upstream \"\(server.group.text)\": server \(server.address) is up again: \(reason)")
    }
  }

  let checks: [Check]
  /// By index in the generation's groups; nil for a group without a check.
  let groups: [GroupHealth?]
  /// Of the reload that made these records.
  let reliefs: [Relief]
  private let known: [Key: ServerHealth]
  /// Also of servers that nothing checks any more, for the metrics once they are checked again.
  private let counts: [Server: HealthCounts]
  /// More servers without a check than these are forgotten.
  private static let formerLimit = 1024
  private let changes: HealthChanges

  /// No checks.
  init() {
    checks = []
    groups = []
    reliefs = []
    known = [:]
    counts = [:]
    changes = HealthChanges()
  }

  /// `former`: what the generation knows that serves until now.
  init(_ http: HTTPSettings, _ groups: [ResolvedGroup], after former: HealthRecords? = nil) {
    let changes = former?.changes ?? HealthChanges()
    var known: [Key: ServerHealth] = [:]
    var counts: [Server: HealthCounts] = [:]
    var checks: [Check] = []
    let down = former?.toldDown ?? [:]
    var byServer: [[[ServerHealth]]] = groups.map { $0.servers.map { _ in [] } }
    for server in http.servers {
      for location in server.root.withNested {
        guard let pass = location[UpstreamPass.self], let settings = pass[HealthCheckSettings.self],
          case .group(let index, let scheme) = pass.target.upstream, groups.indices.contains(index)
        else { continue }
        let group = groups[index]
        var checked: [(ResolvedGroup.Server, ServerHealth)] = []
        var seen: Set<ObjectIdentifier> = []
        // A server that is `down` gets no requests, so there is nothing to find out.
        for (place, upstream) in group.servers.enumerated() where !upstream.settings.isDown {
          let key = Key(
            group: group.settings.fullName, address: upstream.address, check: settings, scheme: scheme,
            tls: pass.trust.tls,
            tlsName: pass.trust.name, version: pass.version, timeouts: pass.timeouts, fields: pass.request.fields,
            serverName: server.primaryName, origin: pass.origin, opening: pass.tcp?.opening)
          let named = Server(group: group.settings.fullName, address: upstream.address)
          let count = counts[named] ?? former?.counts[named] ?? HealthCounts()
          counts[named] = count
          let health =
            known[key] ?? former?.known[key]
            ?? ServerHealth(
              HealthState(
                Self.initial(settings, named, former), fails: settings.fails, passes: settings.passes,
                down[named] == nil ? .fresh : .afterDown), changes, count)
          // Two locations with the same check share its result, and one of them checks.
          let isNew = known[key] == nil
          known[key] = health
          if !byServer[index][place].contains(where: { $0 === health }) { byServer[index][place].append(health) }
          if isNew, seen.insert(ObjectIdentifier(health)).inserted { checked.append((upstream, health)) }
        }
        checks.append(
          Check(
            settings: settings, pass: pass, serverName: server.primaryName, errorLogs: location.errorLogs,
            group: group.settings.fullName, servers: checked))
      }
    }
    self.checks = checks
    self.known = known
    let unchecked = (former?.counts ?? [:]).filter { counts[$0.key] == nil }
    self.counts = counts.merging(unchecked.prefix(Self.formerLimit).map { ($0.key, $0.value) }) { one, _ in one }
    self.changes = changes
    reliefs = Self.reliefs(of: down, groups, byServer)
    self.groups = byServer.map { servers in
      servers.allSatisfy(\.isEmpty) ? nil : GroupHealth(servers, changes)
    }
  }

  /// The status of a server of which the check knows nothing.
  private static func initial(
    _ settings: HealthCheckSettings, _ server: Server, _ former: HealthRecords?
  ) -> HealthState.Status {
    guard settings.isMandatory else { return .up }
    guard settings.isPersistent, let before = former?.byServer[server] else { return .checking }
    return before.allSatisfy(\.isUp) ? .up : .checking
  }

  /// The servers of which the error log says that they are down, each with the logs that say so.
  private var toldDown: [Server: [ErrorLogSettings]] {
    checks.reduce(into: [:]) { servers, check in
      for (server, health) in check.servers where health.isToldDown {
        servers[Server(group: check.group, address: server.address)] = check.errorLogs
      }
    }
  }

  /// Those of `down` that get requests now, in the order of the groups. A server that no group has any more is told of
  /// by nobody.
  private static func reliefs(
    of down: [Server: [ErrorLogSettings]], _ groups: [ResolvedGroup], _ byServer: [[[ServerHealth]]]
  ) -> [Relief] {
    var left = down
    var reliefs: [Relief] = []
    for (group, checks) in zip(groups, byServer) where !left.isEmpty {
      for (server, health) in zip(group.servers, checks) where !server.settings.isDown && health.allSatisfy(\.isUp) {
        let named = Server(group: group.settings.fullName, address: server.address)
        guard let logs = left.removeValue(forKey: named) else { continue }
        reliefs.append(Relief(server: named, errorLogs: logs, isChecked: !health.isEmpty))
      }
    }
    return reliefs
  }

  /// How many checks of a server ended so, since the start.
  func count(_ result: ServerHealth.Result, of server: Server) -> UInt64 { counts[server]?.count(result) ?? 0 }

  /// The results by server, for the metrics: of all checks of each server.
  var byServer: [Server: [ServerHealth]] {
    known.reduce(into: [:]) { servers, entry in
      servers[Server(group: entry.key.group, address: entry.key.address), default: []].append(entry.value)
    }
  }
}
