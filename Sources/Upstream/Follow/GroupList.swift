import Bytes
import Synchronization
import Transport

/// The servers of a group as they are now: what DNS says of those with `resolve`, and what the API has added and removed.
/// All workers share it, and reloads keep it.
///
/// A list is replaced as a whole: a change makes a new `ResolvedGroup` with the next number, and each worker makes a new
/// `UpstreamGroup` of it. What is known of a server stays with its address. Bound: `limit` servers.
public final class GroupList: Sendable {
  package static let limit = 1024

  private struct State {
    /// The group's settings, and its servers with addresses.
    var template: ResolvedGroup
    var found: [FollowedName: [FollowedAddress]] = [:]
    var changes = ServerChanges()
    var group: ResolvedGroup
    var number: UInt64 = 1
  }

  private let state: Mutex<State>
  private let newest = Atomic<UInt64>(1)
  let balancer: SharedBalancer

  /// `former`: a list of the same group with other names or ports, whose answers count until there are new ones.
  init(_ template: ResolvedGroup, after former: GroupList? = nil) {
    let found = Self.answers(former?.state.withLock { $0.found } ?? [:], for: template)
    let group = Self.group(template, found, ServerChanges())
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
      state.template = template.settings.isStateDamaged ? template.keepingServers(of: state.template) : template
      state.changes.adopt(state.template)
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
    let group = Self.group(state.template, state.found, state.changes)
    guard group.settings != state.group.settings || group.servers != state.group.servers else { return false }
    state.group = group
    state.number &+= 1
    let (plan, number) = (Balancer.Plan(group), state.number)
    balancer.withLock { $0.replace(plan, list: number) }
    newest.store(number, ordering: .releasing)
    return true
  }

  // MARK: Changes by the API

  /// Adds a server for all workers.
  func add(_ server: ResolvedGroup.Server) throws(ServerListFault) {
    try change { (state) throws(ServerListFault) in
      guard !state.group.servers.contains(where: { $0.address == server.address }) else { throw .exists }
      guard state.group.servers.count < Self.limit else { throw .full }
      guard !server.settings.isBackup || !state.template.settings.method.isWithoutBackup else { throw .noBackup }
      state.changes.added.append(server)
    }
  }

  /// Removes a server for all workers. Exchanges that it serves go on.
  func remove(_ address: SocketAddress) throws(ServerListFault) {
    try change { (state) throws(ServerListFault) in
      if let place = state.changes.added.firstIndex(where: { $0.address == address }) {
        state.changes.added.remove(at: place)
        return
      }
      guard let server = state.group.servers.first(where: { $0.address == address }) else { throw .unknown }
      guard server.settings.followed == nil else { throw .ofDNS }
      state.changes.removed[address] = server.settings
    }
  }

  private func change(
    _ body: (inout State) throws(ServerListFault) -> Void
  ) throws(ServerListFault) {
    try state.withLock { (state) throws(ServerListFault) in
      try body(&state)
      renew(&state)
    }
  }

  /// What the API has added and removed, by address.
  var changed: (added: Set<SocketAddress>, removed: [SocketAddress]) {
    state.withLock { state in
      let removed = state.changes.removed.filter { address, line in
        state.template.servers.contains { $0.address == address && line.saysTheSame(as: $0.settings) }
      }
      return (Set(state.changes.added.map(\.address)), Array(removed.keys))
    }
  }

  /// The words of the lines of the group's servers as they are now, for its `state`.
  public var lines: [[String]] {
    let servers = state.withLock { $0.group.servers }
    let routes = Dictionary(servers.map { ($0.address, $0.settings.route) }) { first, _ in first }
    return balancer.withLock { $0.members(now: 0) }.map { $0.words(route: routes[$0.address] ?? []) }
  }

  private static func group(
    _ template: ResolvedGroup, _ found: [FollowedName: [FollowedAddress]], _ changes: ServerChanges
  ) -> ResolvedGroup {
    let noBackup = template.settings.method.isWithoutBackup
    let servers = template.settings.servers.flatMap { line -> [ResolvedGroup.Server] in
      guard let name = line.followed else {
        return template.servers.filter { $0.settings == line && changes.keeps($0) }
      }
      return (found[name] ?? []).compactMap { entry in
        var settings = line
        // nginx: with `backup`, only the records with the first priority count, as backup servers.
        if entry.isSecond, line.isBackup || noBackup { return nil }
        settings.isBackup = line.isBackup || entry.isSecond
        if line.weight == 1, let weight = entry.weight { settings.weight = weight }
        return ResolvedGroup.Server(address: entry.address, settings: settings)
      }
    }
    return ResolvedGroup(settings: template.settings, servers: Array((servers + changes.added).prefix(limit)))
  }
}

/// Why the API did not add or remove a server.
public enum ServerListFault: Error, Sendable {
  /// The group's servers are those of its lines.
  case fixed
  case exists
  case full
  case unknown
  /// DNS says which addresses there are.
  case ofDNS
  /// The group's method knows no backup servers.
  case noBackup
}

/// What the API has added to a group's servers, and removed of them.
private struct ServerChanges {
  var added: [ResolvedGroup.Server] = []
  /// By address: what the line said. A line that says something else is newer.
  var removed: [SocketAddress: UpstreamServerSettings] = [:]

  func keeps(_ server: ResolvedGroup.Server) -> Bool {
    removed[server.address]?.saysTheSame(as: server.settings) != true
  }

  /// Drops what the lines of a new generation say themselves.
  mutating func adopt(_ template: ResolvedGroup) {
    removed = removed.filter { address, line in
      template.servers.contains { $0.address == address && line.saysTheSame(as: $0.settings) }
    }
    added.removeAll { server in
      template.servers.contains { $0.address == server.address && removed[$0.address] == nil }
    }
  }
}

extension UpstreamServerSettings {
  /// Whether two lines are the same, wherever they stand.
  fileprivate func saysTheSame(as other: UpstreamServerSettings) -> Bool {
    var other = other
    other.location = location
    return self == other
  }
}

/// The lists of groups that are in use. A reload that follows the same names keeps the list.
public final class GroupLists: Sendable {
  private struct Identity: Hashable {
    let zone: String
    let group: GroupName
    let names: [FollowedName]
  }

  private let known = ZoneRegistry<Identity, GroupList>()

  public init() {}

  /// The words of the lines that the `state` of a group is to have; nil: no generation has the group.
  public func lines(of group: UpstreamGroupSettings) -> [[String]]? {
    known.existing(Identity(zone: group.zone ?? "", group: group.fullName, names: []))?.lines
  }

  /// nil: no server of the group has `resolve`, and nobody adds or removes any (`isChangeable`).
  public func list(for group: ResolvedGroup, isChangeable: Bool) -> GroupList? {
    let names = group.settings.servers.compactMap(\.followed)
    guard !names.isEmpty || isChangeable else { return nil }
    let identity = Identity(zone: group.settings.zone ?? "", group: group.settings.fullName, names: names)
    return known.zone(identity) { list in
      list.adopt(group)
    } make: { others in
      let former = others.first { $0.identity.zone == identity.zone && $0.identity.group == identity.group }
      return GroupList(group, after: former?.zone)
    }
  }
}
