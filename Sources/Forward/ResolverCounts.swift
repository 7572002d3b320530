package import DNS
import Synchronization
package import Traffic
package import Upstream

/// What the resolvers of the process have asked, over generations. It has the lines of the generation that serves.
package final class ResolverCounts: SharedPart {
  private let all = Mutex<[String: DNSCounts]>([:])

  package init(_ shared: SharedState) {}

  /// Those of a line. Lines with the same servers have the same.
  package func counts(of settings: ResolverSettings) -> DNSCounts {
    all.withLock { all in
      let name = settings.name, counts = all[name] ?? DNSCounts()
      all[name] = counts
      return counts
    }
  }

  package func serve(_ generation: Generation) {
    let names = Set(generation.nameServers.keys.map(\.name))
    all.withLock { all in all = all.filter { names.contains($0.key) } }
  }

  /// By the servers of their lines, in order.
  package var totals: [(resolver: String, totals: DNSTotals)] {
    all.withLock { $0 }.map { ($0.key, $0.value.totals) }.sorted { $0.0 < $1.0 }
  }
}

extension ResolverSettings {
  fileprivate var name: String { servers.map(\.address.description).joined(separator: " ") }
}
