import Observability
package import Traffic
package import Upstream

/// The groups of upstream servers of a generation in one worker, and what connections to them need.
package final class LiveGroups: LivePart {
  /// As the configuration numbers them. Groups with `resolve` have their first lists here.
  package let all: [UpstreamGroup]
  /// Groups with `resolve`, by index in `all`.
  package let followed: [Int: FollowedGroup]
  /// The groups that targets of `http` with variables name, and those that are made for them.
  package let http: DynamicGroups
  /// The same of `stream`: the names of one block's groups mean nothing in the other.
  package let stream: DynamicGroups
  package let resolvers: LiveResolvers
  /// The caches of certificates that requests name, by their `proxy_ssl_certificate_cache`.
  private var identities: [PresentedIdentityCache: PresentedIdentities] = [:]

  package required init(_ makers: LiveMakers) {
    let (generation, shared) = (makers.generation, makers.shared)
    let (loop, budget) = (makers.loop, makers.worker.budget)
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
    let all = generation.groups.enumerated().map { [followed] index, group in
      followed[index]?.current
        ?? UpstreamGroup(group, health: group.health, zones: shared.groupZones, loop: loop, budget: budget)
    }
    self.all = all
    let down = shared.faults.down
    for group in all { group.takeOver(down: down) }
    resolvers = LiveResolvers(generation, shared[ResolverCounts.self], loop: loop)
    func dynamic(_ isOfStream: Bool) -> DynamicGroups {
      DynamicGroups(
        // A target of variables goes nowhere through a proxy.
        groups: all.filter { $0.settings.isOfStream == isOfStream && !$0.settings.isNamedToProxies },
        followed: followed.values.filter { $0.current.settings.isOfStream == isOfStream }, isOfStream: isOfStream,
        resolver: shared.resolver, loop: loop, budget: budget)
    }
    http = dynamic(false)
    stream = dynamic(true)
    super.init(makers)
  }

  /// The group that the configuration has at an index, with the servers that it has now.
  package func newest(_ index: Int) -> UpstreamGroup? {
    followed[index]?.newest() ?? (all.indices.contains(index) ? all[index] : nil)
  }

  /// The certificates that requests name, as this `proxy_ssl_certificate_cache` keeps them.
  func identities(_ cache: PresentedIdentityCache, _ makers: LiveMakers) -> PresentedIdentities {
    if let known = identities[cache] { return known }
    let fresh = PresentedIdentities(cache, loop: makers.loop, pool: makers.shared.pool, tokens: makers.shared.tokens)
    identities[cache] = fresh
    return fresh
  }

  package override var groups: [UpstreamGroup] {
    let current = followed.isEmpty ? all : all.indices.map { followed[$0]?.current ?? all[$0] }
    return current + http.made + stream.made
  }

  package override func meter(_ meters: GroupMeters) {
    for group in all { group.meter = meters.meter(of: group) }
    for group in followed.values { group.meters = meters }
    http.meters = meters
    stream.meters = meters
  }

  /// Without requests, a worker would keep the servers that a group had.
  package override func sample() {
    for group in followed.values { _ = group.newest() }
    for group in groups { group.sample() }
  }

  package override func close() {
    for group in all { group.close() }
    for group in followed.values { group.current.close() }
    resolvers.close()
    http.close()
    stream.close()
  }
}
