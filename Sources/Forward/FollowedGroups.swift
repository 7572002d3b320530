import DNS
import Observability
package import Traffic
package import Transport
package import Upstream

/// A group with `resolve` in one worker. An exchange keeps the `UpstreamGroup` that it began with, whose servers don't
/// change; a new list makes a new one.
package final class FollowedGroup {
  package let list: GroupList
  package private(set) var current: UpstreamGroup
  private let loop: EventLoop
  private let budget: ConnectionBudget
  /// Where each list gets its meters; nil if no location shows metrics.
  package var meters: GroupMeters? { didSet { current.meter = meters?.meter(of: current) } }

  package init(_ list: GroupList, loop: EventLoop, budget: ConnectionBudget) {
    self.list = list
    self.loop = loop
    self.budget = budget
    current = UpstreamGroup(list, loop: loop, budget: budget)
  }

  /// The group with the servers that DNS has now.
  package func newest() -> UpstreamGroup {
    guard current.isOutdated, !current.isClosed else { return current }
    let former = current
    former.close()
    current = UpstreamGroup(list, loop: loop, budget: budget)
    current.meter = meters?.meter(of: current, after: former)
    return current
  }
}

/// The followers of all names with `resolve` of a generation. One worker of the process has them.
package final class NameFollowers: WorkerPart {
  private var followers: [NameFollower] = []

  package override func serve(_ live: LiveGeneration) {
    guard worker.loop.index == 0, !worker.isDraining else { return }
    drain()
    let loop = worker.loop
    let (generation, log) = (live.generation, live.generation.errorLog)
    followers = (live[LiveGroups.self]?.followed ?? [:]).values.flatMap { group -> [NameFollower] in
      let settings = group.list.current.group.settings
      guard let resolution = settings.nameResolution, let servers = generation.nameServers[resolution.resolver] else {
        return []
      }
      let policy = resolution.resolver.policy
      let counts = worker.shared[ResolverCounts.self].counts(of: resolution.resolver)
      return Set(settings.servers.compactMap(\.followed)).map { name in
        NameFollower(
          name, group.list,
          resolver: DNSResolver(servers: servers, policy: policy, counts: counts, loop: loop), policy: policy,
          timeout: resolution.timeout
        ) { event in
          log.tell(event, of: name, in: settings.name)
        }
      }
    }
    for follower in followers { follower.start() }
  }

  package override func drain() {
    for follower in followers { follower.stop() }
    followers = []
  }
}

extension ErrorLog {
  fileprivate func tell(_ event: NameFollower.Event, of name: FollowedName, in group: String) {
    switch event {
    case .changed(let servers):
      let all = servers.isEmpty ? "none" : servers.prefix(16).map(\.description).joined(separator: ", ")
      notice("the servers of upstream \"\(group)\" are now: \(all)\(servers.count > 16 ? ", …" : "")")
    case .failed(let reason):
      let asked = name.service.map { "service \($0)" } ?? "\(name.name)"
      error("\(asked) could not be resolved (\(reason)) in upstream \"\(group)\"")
    }
  }
}
