import Upstream

/// What requests to the API have changed, and the configuration doesn't say, for the status page and the metrics.
package struct RuntimeOverrides: Sendable {
  package struct Server: Sendable, Hashable {
    package let upstream: String
    package let server: String
    /// The word of the server's line that is other now, or `added` or `removed`.
    package let change: String
    /// A number, seconds, or 1 for yes and 0 for no.
    package let value: Int64

    package var words: String {
      switch change {
      case "added", "removed": change
      case "drain", "down": value == 1 ? change : "no longer \(change)"
      case "fail_timeout", "slow_start": "\(change) \(value)s"
      default: "\(change) \(value)"
      }
    }
  }

  package var servers: [Server] = []
  /// Fingerprints of the clients' certificates that are denied, with the seconds that are left.
  package var denials: [(fingerprint: String, seconds: UInt64)] = []
}

extension RuntimeOverrides {
  /// Called in the worker's loop, whose groups it asks.
  package init(_ exchange: Exchange) {
    denials = exchange.worker.shared.denials.all()
    servers = exchange.session.live.zonedGroups.flatMap { Self.changes(of: $0) }
      .sorted { ($0.upstream, $0.server, $0.change) < ($1.upstream, $1.server, $1.change) }
  }

  private static func changes(of group: UpstreamGroup) -> [Server] {
    let upstream = group.settings.name
    func change(_ server: String, _ change: String, _ value: Int64 = 1) -> Server {
      Server(upstream: upstream, server: server, change: change, value: value)
    }
    let overrides = group.members.flatMap { member in
      member.overrides.map { change("\(member.address)", $0.name, $0.value) }
    }
    // With `state`, the servers that the API added are those of the group.
    guard group.settings.stateFile == nil else { return overrides }
    let (added, removed) = group.changedServers
    return overrides + added.map { change("\($0)", "added") } + removed.map { change("\($0)", "removed") }
  }
}
