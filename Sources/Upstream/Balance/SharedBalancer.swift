import Bytes
import Synchronization
import Transport

/// A group's run-time state with `zone`: all workers count in it, so that weights, failures, `max_conns` and
/// `least_conn` are exact. The lock is held for one pick or one end.
final class SharedBalancer: Sendable {
  private let balancer: Mutex<Balancer>

  init(_ balancer: Balancer) { self.balancer = Mutex(balancer) }

  func withLock<Value: Sendable>(_ body: (inout sending Balancer) -> sending Value) -> Value {
    balancer.withLock(body)
  }
}

/// The groups with `zone` that are in use. A reload that leaves the addresses of a group's servers as they are keeps the
/// state: the servers take new settings over, and what is known of them stays. Other servers begin anew.
///
/// A state lives as long as a group of a worker uses it.
public final class GroupZones: Sendable {
  private struct Identity: Hashable {
    let zone: String
    let group: GroupName
    let addresses: [SocketAddress]
    /// Without a check, nobody would take back what a former one has said.
    let isChecked: Bool
  }

  private let known = ZoneRegistry<Identity, SharedBalancer>()

  public init() {}

  func balancer(zone: String, _ group: ResolvedGroup, isChecked: Bool, _ plan: Balancer.Plan) -> SharedBalancer {
    let identity = Identity(
      zone: zone, group: group.settings.fullName, addresses: group.servers.map(\.address), isChecked: isChecked)
    return known.zone(identity) { balancer in
      balancer.withLock { $0.replace(plan) }
    } make: { others in
      var balancer = Balancer(plan, seed: UInt64.random(in: 0 ... .max))
      // With other addresses in its lines the group begins anew, but not with what somebody has changed.
      let former = others.first { $0.identity.zone == identity.zone && $0.identity.group == identity.group }
      if let former { balancer.inherit(former.zone.withLock { $0 }) }
      return SharedBalancer(balancer)
    }
  }
}
