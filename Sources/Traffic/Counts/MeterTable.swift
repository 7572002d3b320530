package import Observability
import Synchronization
import Transport
package import Upstream

/// A server block as the metrics name it.
package struct ServerSeries: Hashable, Comparable {
  package let server: String
  /// The addresses on which it listens, separated by commas: several server blocks can have one name.
  package let listen: String

  package static func < (one: Self, other: Self) -> Bool { (one.server, one.listen) < (other.server, other.listen) }
}

/// A server of a group as the metrics name it.
package struct UpstreamSeries: Hashable, Comparable {
  package let upstream: GroupName
  /// The address, or the name of a server with `resolve`: clients and DNS can't make further series.
  package let server: String

  /// All targets of `proxy_pass` with variables that name no group, because a client may choose them.
  package static func variable(isOfStream: Bool) -> UpstreamSeries {
    UpstreamSeries(upstream: GroupName("(variable)", isOfStream: isOfStream), server: "(variable)")
  }

  package static func < (one: Self, other: Self) -> Bool { (one.upstream, one.server) < (other.upstream, other.server) }

  package init(upstream: GroupName, server: String) {
    self.upstream = upstream
    self.server = server
  }

  package init(_ group: UpstreamGroupSettings, _ server: ResolvedGroup.Server) {
    upstream = group.fullName
    self.server = server.settings.followed == nil ? server.address.description : server.settings.spelling
  }
}

/// The meters of one worker, by what they count.
///
/// A reload keeps the meters whose server block or upstream server is in both configurations, so their counts go on. It
/// puts the others aside, so that no counter falls if a later reload restores what they count.
package struct MeterTable: Sendable {
  /// More meters than these of one kind are not put aside: the names of a configuration that a program writes never end.
  private static let asideLimit = 1024

  package var requests: [ServerSeries: RequestMeter] = [:]
  /// Of server blocks of `stream`.
  package var sessions: [ServerSeries: SessionMeter] = [:]
  package var attempts: [UpstreamSeries: AttemptMeter] = [:]
  /// By group: requests for which no server could be tried.
  package var exhausted: [GroupName: CountRow] = [:]

  /// Adds the meters of another table that this one lacks.
  package mutating func add(_ other: MeterTable) {
    requests.merge(other.requests) { own, _ in own }
    sessions.merge(other.sessions) { own, _ in own }
    attempts.merge(other.attempts) { own, _ in own }
    exhausted.merge(other.exhausted) { own, _ in own }
  }

  /// Removes what the other table has, and then what is too much.
  package mutating func leave(to other: MeterTable) {
    requests = Self.few(requests.filter { other.requests[$0.key] == nil })
    sessions = Self.few(sessions.filter { other.sessions[$0.key] == nil })
    attempts = Self.few(attempts.filter { other.attempts[$0.key] == nil })
    exhausted = Self.few(exhausted.filter { other.exhausted[$0.key] == nil })
  }

  /// Takes the meters of servers that a group no longer has.
  package mutating func take(_ meters: [UpstreamSeries: AttemptMeter]) {
    attempts = Self.few(attempts.merging(meters) { $1 })
  }

  private static func few<Key, Meter>(_ meters: [Key: Meter]) -> [Key: Meter] {
    meters.count <= asideLimit ? meters : Dictionary(meters.prefix(asideLimit).map { $0 }) { first, _ in first }
  }
}

/// Where the groups of one generation in one worker get their meters.
public final class GroupMeters {
  private let counters: WorkerCounters

  package init(_ counters: WorkerCounters) { self.counters = counters }

  /// `former`: the same group before the API or DNS has changed its servers. The meters of those that are gone are put
  /// aside, so that the page doesn't grow with each server that was ever there, and no count falls if one comes back.
  package func meter(of group: UpstreamGroup, after former: UpstreamGroup? = nil) -> GroupMeter {
    let name = group.settings.fullName
    let aside = former == nil ? [:] : counters.withFormerMeters { $0.attempts }
    var gone = Set((former?.servers ?? []).map { UpstreamSeries(group.settings, $0) })
    let (meter, dropped) = counters.withMeters { table in
      let exhausted = table.exhausted[name] ?? CountRow(1)
      table.exhausted[name] = exhausted
      let meter = GroupMeter(
        group.servers.map { server in
          let series = UpstreamSeries(group.settings, server)
          let meter = table.attempts[series] ?? aside[series] ?? AttemptMeter()
          table.attempts[series] = meter
          gone.remove(series)
          return meter
        }, exhausted: exhausted)
      let dropped = table.attempts.filter { gone.contains($0.key) }
      for series in dropped.keys { table.attempts[series] = nil }
      return (meter, dropped)
    }
    if !dropped.isEmpty { counters.withFormerMeters { $0.take(dropped) } }
    return meter
  }

  /// For a group that a target with variables has made.
  package func meter(ofMade group: UpstreamGroup) -> GroupMeter {
    let series = UpstreamSeries.variable(isOfStream: group.settings.isOfStream)
    return counters.withMeters { table in
      let exhausted = table.exhausted[series.upstream] ?? CountRow(1)
      table.exhausted[series.upstream] = exhausted
      let meter = table.attempts[series] ?? AttemptMeter()
      table.attempts[series] = meter
      return GroupMeter([AttemptMeter](repeating: meter, count: group.servers.count), exhausted: exhausted)
    }
  }
}
