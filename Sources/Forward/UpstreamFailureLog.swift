import Bytes
import Observability
import TLS
import Traffic
import Transport
import Upstream

/// Writes upstream failures to the error log. A dead upstream fails with every request, so `FaultLog` folds the lines.
enum UpstreamFailureLog {
  /// Logs the first failure of a kind, at `error`, and each failure at `debug`. Summaries follow. `tried`: the last
  /// server. `circumstance`: what the line says besides, which differs between failures of one kind.
  // Not inlined: Swift 6.3's optimiser ends with an "ownership error" over the callers.
  @inline(never)
  static func tell(
    _ failure: AttemptFailure, _ transaction: Transaction, _ group: UpstreamGroup?, _ tried: Int?,
    _ circumstance: String = ""
  ) {
    let text = failure.description
    guard let group else { return transaction.tellOfRepeated(.error, text) }
    let weight = weight(of: failure)
    let server = weight == .none ? nil : tried
    if let server { group.didFail(server) }
    let decision = transaction.worker.shared.faults.note(
      text, about: group.description(of: server), server == nil ? .none : weight, .error, transaction.location.errorLog,
      now: transaction.worker.loop.now)
    transaction.log(decision.writes ? .error : .debug, text + circumstance)
    if let line = decision.downLine { transaction.location.errorLog.error(line) }
  }

  /// No server caused the failure if none was tried, or if this process lacks a resource.
  private static func weight(of failure: AttemptFailure) -> FaultLog.Weight {
    switch failure {
    case .noServer, .noRoom: .none
    case .connect(let error), .proxy(_, .connect(let error)): error.isOurs ? .none : .unreachable
    default: .attempt
    }
  }

  /// The most lines of an exchange about what its upstream says.
  private static let hearing = 100

  /// Logs what an upstream says for the error log, in nginx's words. `heard`: the lines of the exchange until now.
  static func tell(_ text: UnsafeRawBufferPointer, _ wire: UpstreamWire, _ exchange: Exchange, _ heard: inout Int) {
    guard heard <= hearing else { return }
    heard += 1
    guard heard <= hearing else {
      return exchange.log(.error, "\(wire.name) sent more in stderr, which is left out")
    }
    // nginx leaves the end of the last line out too.
    let end = text.lastIndex { ![0x0A, 0x0D, 0x20, 0x2E].contains($0) } ?? -1
    let place = exchange.progress.state == .waiting ? "response header from upstream" : "upstream"
    exchange.log(
      .error,
      "\(wire.name) sent in stderr: \"\(UnsafeRawBufferPointer(rebasing: text[...end]).text)\" while reading \(place)")
  }

  /// Counts the outcome and logs a mismatch once per handshake. For later requests, see `$upstream_ssl_result`.
  static func noteHandshake(_ session: UpstreamSession, _ transaction: Transaction) {
    transaction.worker.counters.upstreams.count(session.trustOutcome)
    session.meter?.didJudge(session.trustOutcome)
    transaction.worker.counters.upstreamSessions.count(session.isResumed ? .resumed : .full)
    if let group = session.keyExchange { transaction.worker.counters.upstreamKeyExchanges.count(group) }
    guard session.trustOutcome == .reportOnlyMismatch, let warning = session.peer.warning else { return }
    transaction.log(.warn, "\(warning) while SSL handshaking to upstream")
  }

  /// Notes a response. If the server had failed before, the error log may say that it is up again.
  @inline(__always)
  static func noteAnswer(_ transaction: Transaction, _ group: UpstreamGroup?, _ server: Int?) {
    guard let server, let group, group.hasFailures else { return }
    noteRecovery(of: server, in: group, transaction)
  }

  @inline(never)
  private static func noteRecovery(of server: Int, in group: UpstreamGroup, _ transaction: Transaction) {
    guard group.isTroubled(server),
      transaction.worker.shared.faults.succeeded(group.description(of: server), now: transaction.worker.loop.now)
    else { return }
    group.didRecover(server)
  }
}
