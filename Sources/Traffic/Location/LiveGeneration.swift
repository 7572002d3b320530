package import Crypto
package import Observability
package import TLS
package import Transport
package import Upstream

/// What locations are compiled with.
package struct LiveMakers {
  package let generation: Generation
  package let shared: SharedState
  package let groups: [UpstreamGroup]
  package let resolvers: LiveResolvers
  /// Groups with `resolve`, by index.
  package let followed: [Int: FollowedGroup]
  package let loop: EventLoop
  /// What features keep in this generation.
  package let parts = LiveParts()
  /// The index of the server block.
  package var server = 0
  /// The fields of the server block that its locations remove from clients' requests for another reason.
  package var removedNames: [[UInt8]] = []
  /// Those of the server block.
  package var conditionals = ConditionalLocations()
  /// nil but for `sallyport check --explain`.
  package var trace: ExplainTrace?

  package func errorLog(_ settings: [ErrorLogSettings]) -> ErrorLog {
    generation.errorLogs[settings] ?? generation.errorLog
  }
}

/// A generation in one worker: compiled, with its own pools and balancers. It ends when its last client has gone.
package final class LiveGeneration {
  package let generation: Generation
  package let groups: [UpstreamGroup]
  package let servers: [LiveServer]
  /// By the identity of their contexts, which they hold.
  private let serversOfContexts: [ObjectIdentifier: LiveServer]
  package let listeners: [VirtualServers]
  package let dynamicGroups: DynamicGroups
  let streamGroups: DynamicGroups
  private let resolvers: LiveResolvers
  /// Groups with `resolve`, by index in `groups`, which has their first lists.
  package let followed: [Int: FollowedGroup]
  package let parts: LiveParts
  /// Those that were used, by their `proxy_ssl_certificate_cache`.
  private var identities: [PresentedIdentityCache: PresentedIdentities] = [:]
  private let loop: EventLoop
  private let shared: SharedState
  /// By slot; nil for variables that are set.
  package let variables: [LiveVariable?]
  /// The CRLs by which its server blocks judge clients, each once.
  package private(set) lazy var revocations: [RevocationList] = {
    var known: Set<[UInt8]> = []
    return generation.serverContexts.flatMap { $0?.revocations ?? [] }.filter { known.insert($0.sha256).inserted }
  }()
  /// Connections of clients that it serves.
  package var clients = 0
  /// Cuts those that are left of a previous generation; nil without `worker_shutdown_timeout`.
  package var shutdown: OneShotTimer?

  /// `trace`: see `LiveMakers`.
  package init(
    _ generation: Generation, _ shared: SharedState, loop: EventLoop, budget: ConnectionBudget,
    trace: ExplainTrace? = nil
  ) {
    self.generation = generation
    var followed: [Int: FollowedGroup] = [:]
    for (index, group) in generation.groups.enumerated() {
      let isChangeable =
        group.settings.zone != nil
        && (group.settings.stateFile != nil || generation.http.hasWritableAPI && group.health == nil)
      if let list = shared.groupLists.list(for: group, isChangeable: isChangeable) {
        followed[index] = FollowedGroup(list, loop: loop, budget: budget)
      }
    }
    self.followed = followed
    let groups = generation.groups.enumerated().map { [followed] index, group in
      followed[index]?.current
        ?? UpstreamGroup(
          group, health: group.health, zones: shared.groupZones, loop: loop,
          budget: budget)
    }
    self.groups = groups
    let resolvers = LiveResolvers(generation, loop: loop)
    self.resolvers = resolvers
    let makers = LiveMakers(
      generation: generation, shared: shared, groups: groups, resolvers: resolvers, followed: followed, loop: loop,
      trace: trace)
    let servers = generation.http.servers.enumerated().map { index, settings in
      var makers = makers
      makers.server = index
      makers.removedNames = settings.root.features.flatMap(\.removedFields)
      makers.conditionals = ConditionalLocations()
      return LiveServer(
        settings: settings, context: generation.serverContexts[index],
        root: LiveLocation(settings: settings.root, makers: makers, isRoot: true),
        conditionals: makers.conditionals)
    }
    self.servers = servers
    for kind in Features.all.flatMap({ $0.liveParts }) { _ = makers[kind] }
    self.parts = makers.parts
    self.serversOfContexts = Dictionary(
      servers.compactMap { server in server.context.map { (ObjectIdentifier($0), server) } },
      uniquingKeysWith: { first, _ in first })
    self.listeners = generation.http.listeners.map {
      VirtualServers($0, all: servers, challenges: shared.challengeCertificates, healthMark: shared.healthMark)
    }
    let computed = generation.http.computed
    let last = computed.keys.max() ?? -1
    self.variables = (0..<(last + 1)).map { computed[$0]?.live(makers) }
    self.loop = loop
    self.shared = shared
    // The names of one block's groups mean nothing in the other.
    func dynamic(_ isOfStream: Bool) -> DynamicGroups {
      DynamicGroups(
        groups: groups.filter { $0.settings.isOfStream == isOfStream },
        followed: followed.values.filter { $0.current.settings.isOfStream == isOfStream }, isOfStream: isOfStream,
        resolver: shared.resolver, loop: loop, budget: budget)
    }
    self.dynamicGroups = dynamic(false)
    self.streamGroups = dynamic(true)
  }

  /// The server block of a context that a handshake chose.
  package func server(of context: ServerTLSContext) -> LiveServer? { serversOfContexts[ObjectIdentifier(context)] }

  /// The listener with this address, or with the same port on every address of its family.
  package func listenerIndex(at address: ListenAddress) -> Int? { generation.http.listeners.index(of: address) }

  /// The groups that targets with variables name, and those that are made for them.
  package func dynamicGroups(of kind: TrafficKind) -> DynamicGroups { kind == .http ? dynamicGroups : streamGroups }

  /// The certificates that requests name, as this `proxy_ssl_certificate_cache` keeps them.
  package func identities(_ cache: PresentedIdentityCache) -> PresentedIdentities {
    if let known = identities[cache] { return known }
    let fresh = PresentedIdentities(cache, loop: loop, pool: shared.pool, tokens: shared.tokens)
    identities[cache] = fresh
    return fresh
  }

  /// The groups with `zone` that the configuration names.
  package var zonedGroups: [UpstreamGroup] {
    let stores = Set(generation.http.sharedStores.map(\.group))
    return groups.indices.filter { !stores.contains($0) && groups[$0].settings.zone != nil }
      .map { followed[$0]?.newest() ?? groups[$0] }
  }

  /// Those that may keep idle connections.
  var allGroups: [UpstreamGroup] {
    let current = followed.isEmpty ? groups : groups.indices.map { followed[$0]?.current ?? groups[$0] }
    return current + dynamicGroups.made + streamGroups.made
  }

  /// Closes idle connections. No new exchange begins in this generation.
  package func close() {
    for part in parts.all.reversed() { part.close() }
    for group in groups { group.close() }
    for group in followed.values { group.current.close() }
    resolvers.close()
    dynamicGroups.close()
    streamGroups.close()
  }
}
