import Observability
import TLS
import Transport
import Upstream

/// Writes upstream failures to the error log. A dead upstream fails with every request, so the log omits most lines.
enum UpstreamFailureLog {
  /// Logs the first failure of a kind and then summaries at `error`, and each failure at `debug`. `tried`: the last
  /// server.
  // Not inlined: Swift 6.3's optimiser ends with an "ownership error" over the callers.
  @inline(never)
  static func tell(_ failure: AttemptFailure, _ exchange: Exchange, _ group: UpstreamGroup?, _ tried: Int?) {
    let text = failure.description
    let server: Int?
    switch failure {
    // No server caused the failure: no server was tried, or this process lacks a resource.
    case .noServer, .noRoom: server = nil
    case .connect(let error) where error.isOurs: server = nil
    default: server = tried
    }
    exchange.write(.error, text, group?.failed(server, text, now: exchange.worker.loop.now) ?? .write(withheld: 0))
  }

  /// Counts the outcome and logs a mismatch once per handshake. For later requests, see `$upstream_ssl_result`.
  static func noteHandshake(_ session: UpstreamSession, _ exchange: Exchange) {
    exchange.worker.counters.upstreams.count(session.trustOutcome)
    guard session.trustOutcome == .reportOnlyMismatch, let warning = session.peer.warning else { return }
    exchange.log(.warn, "\(warning) while SSL handshaking to upstream")
  }

  /// Notes a response. If the server had failed before, the error log may say that the server responds again.
  @inline(__always)
  static func noteAnswer(_ exchange: Exchange, _ group: UpstreamGroup?, _ server: Int?) {
    guard let server, let group, group.hasFailures else { return }
    tellRecovery(of: server, in: group, exchange)
  }

  /// Logs at the level of the failures, so that a reader of those lines finds this line too.
  @inline(never)
  private static func tellRecovery(of server: Int, in group: UpstreamGroup, _ exchange: Exchange) {
    guard let (failures, milliseconds) = group.answered(server, now: exchange.worker.loop.now) else { return }
    exchange.log(.error, "upstream answers again, after \(failures) failures in \(milliseconds / 1000) s")
  }
}
