package import DNS
package import Traffic
package import Transport
package import Upstream

/// The resolvers of one worker, one for each `resolver` line with other servers or parameters.
package struct LiveResolvers {
  private let all: [ResolverSettings: DNSResolver]

  package init(_ generation: Generation, _ counts: ResolverCounts, loop: EventLoop) {
    all = generation.nameServers.reduce(into: [:]) { all, entry in
      all[entry.key] = DNSResolver(
        servers: entry.value, policy: entry.key.policy, counts: counts.counts(of: entry.key), loop: loop)
    }
  }

  package func names(_ settings: NameResolutionSettings?) -> LiveNames? {
    settings.flatMap { settings in
      all[settings.resolver].map { LiveNames(resolver: $0, timeout: settings.timeout) }
    }
  }

  package func close() { for resolver in all.values { resolver.close() } }
}

/// `resolver` and `resolver_timeout` of a location in one worker.
package struct LiveNames {
  package let resolver: DNSResolver
  /// Milliseconds.
  package let timeout: Int
}
