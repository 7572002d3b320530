import Bytes
import Synchronization
public import Transport

/// The servers of a group with `resolve`, as DNS has them now. All workers share it, and reloads keep it.
///
/// A list is replaced as a whole: a change makes a new `ResolvedGroup` with the next number, and each worker makes a new
/// `UpstreamGroup` of it. What is known of a server stays with its address. Bound: `limit` servers.
public final class GroupList: Sendable {
  package static let limit = 1024

  private struct State {
    /// The group's settings, and its servers with addresses.
    var template: ResolvedGroup
    var found: [FollowedName: [FollowedAddress]] = [:]
    var group: ResolvedGroup
    var number: UInt64 = 1
  }

  private let state: Mutex<State>
  private let newest = Atomic<UInt64>(1)
  let balancer: SharedBalancer

  /// `former`: a list of the same group with other names or ports, whose answers count until there are new ones.
  init(_ template: ResolvedGroup, after former: GroupList? = nil) {
    let found = Self.answers(former?.state.withLock { $0.found } ?? [:], for: template)
    let group = Self.group(template, found)
    state = Mutex(State(template: template, found: found, group: group))
    var balancer = Balancer(Balancer.Plan(peers: []), seed: UInt64.random(in: 0 ... .max))
    balancer.replace(Balancer.Plan(group), list: 1)
    self.balancer = SharedBalancer(balancer)
  }

  /// The answers that a former list had, also for names that now have another port: DNS says no port without `service`.
  private static func answers(
    _ former: [FollowedName: [FollowedAddress]], for template: ResolvedGroup
  ) -> [FollowedName: [FollowedAddress]] {
    var found = former
    for name in template.settings.servers.compactMap(\.followed) where found[name] == nil {
      guard let (_, addresses) = former.first(where: { $0.key.name == name.name && $0.key.service == name.service })
      else { continue }
      found[name] = addresses.map { entry in
        var entry = entry
        if name.service == nil { entry.address = entry.address.withPort(name.port) }
        return entry
      }
    }
    return found
  }

  /// Changes with each new list.
  public var number: UInt64 { newest.load(ordering: .acquiring) }

  public var current: (group: ResolvedGroup, number: UInt64) { state.withLock { ($0.group, $0.number) } }

  /// Takes the settings of a new generation over.
  func adopt(_ template: ResolvedGroup) {
    state.withLock { state in
      state.template = template
      renew(&state)
    }
  }

  /// Takes what DNS says of a name. Returns the new list, or nil if nothing has changed.
  public func update(_ name: FollowedName, _ addresses: [FollowedAddress]) -> ResolvedGroup? {
    state.withLock { state in
      // DNS servers rotate their answers. Servers that stay keep their places.
      let before = state.found[name] ?? []
      let kept = before.filter(addresses.contains)
      state.found[name] = kept + addresses.filter { !kept.contains($0) }
      return renew(&state) ? state.group : nil
    }
  }

  @discardableResult
  private func renew(_ state: inout State) -> Bool {
    let group = Self.group(state.template, state.found)
    guard group.settings != state.group.settings || group.servers != state.group.servers else { return false }
    state.group = group
    state.number &+= 1
    let (plan, number) = (Balancer.Plan(group), state.number)
    balancer.withLock { $0.replace(plan, list: number) }
    newest.store(number, ordering: .releasing)
    return true
  }

  private static func group(
    _ template: ResolvedGroup, _ found: [FollowedName: [FollowedAddress]]
  ) -> ResolvedGroup {
    let noBackup = template.settings.method.isWithoutBackup
    let servers = template.settings.servers.flatMap { line -> [ResolvedGroup.Server] in
      guard let name = line.followed else { return template.servers.filter { $0.settings == line } }
      return (found[name] ?? []).compactMap { entry in
        var settings = line
        // nginx: with `backup`, only the records with the first priority count, as backup servers.
        if entry.isSecond, line.isBackup || noBackup { return nil }
        settings.isBackup = line.isBackup || entry.isSecond
        if line.weight == 1, let weight = entry.weight { settings.weight = weight }
        return ResolvedGroup.Server(address: entry.address, settings: settings)
      }
    }
    return ResolvedGroup(settings: template.settings, servers: Array(servers.prefix(limit)))
  }
}

/// The lists of groups with `resolve` that are in use. A reload that follows the same names keeps the list.
public final class GroupLists: Sendable {
  private struct Identity: Hashable {
    let zone: String
    let group: String
    let names: [FollowedName]
  }

  private let known = ZoneRegistry<Identity, GroupList>()

  public init() {}

  /// nil: no server of the group has `resolve`.
  public func list(for group: ResolvedGroup) -> GroupList? {
    let names = group.settings.servers.compactMap(\.followed)
    guard !names.isEmpty else { return nil }
    let identity = Identity(zone: group.settings.zone ?? "", group: group.settings.name, names: names)
    return known.zone(identity) { list in
      list.adopt(group)
    } make: { others in
      let former = others.first { $0.identity.zone == identity.zone && $0.identity.group == identity.group }
      return GroupList(group, after: former?.zone)
    }
  }
}
