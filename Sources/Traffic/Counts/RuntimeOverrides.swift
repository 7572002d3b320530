package import Observability

/// What requests to the API have changed, and the configuration doesn't say, for the status page and the metrics.
package struct RuntimeOverrides: Sendable {
  package struct Server: Sendable, Hashable {
    package let upstream: String
    package let server: String
    /// The word of the server's line that is other now, or `added` or `removed`.
    package let change: String
    /// A number, seconds, or 1 for yes and 0 for no.
    package let value: Int64

    package init(upstream: String, server: String, change: String, value: Int64 = 1) {
      self.upstream = upstream
      self.server = server
      self.change = change
      self.value = value
    }

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
  package var denials: [DeniedCertificate] = []
  /// What error logs take besides what `error_log` says.
  package var logLevel: LogLevelOverride?

  package init(servers: [Server] = [], denials: [DeniedCertificate] = []) {
    self.servers = servers
    self.denials = denials
  }
}
