import DNS
import Transport
import Upstream

/// The resolvers of one worker, one for each `resolver` line with other servers or parameters.
struct LiveResolvers {
  private let all: [ResolverSettings: DNSResolver]

  init(_ generation: Generation, loop: EventLoop) {
    all = generation.nameServers.reduce(into: [:]) { all, entry in
      all[entry.key] = DNSResolver(servers: entry.value, policy: entry.key.policy, loop: loop)
    }
  }

  func names(_ settings: NameResolutionSettings?) -> LiveNames? {
    settings.flatMap { settings in
      all[settings.resolver].map { LiveNames(resolver: $0, timeout: settings.timeout) }
    }
  }

  func close() { for resolver in all.values { resolver.close() } }
}

/// `resolver` and `resolver_timeout` of a location in one worker.
struct LiveNames {
  let resolver: DNSResolver
  /// Milliseconds.
  let timeout: Int
}
