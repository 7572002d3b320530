import Crypto
package import Observability
package import TLS
package import Transport

/// Folds the lines about clients whose handshakes fail and about refused clients, over all workers.
///
/// Any host can cause such lines as fast as the network allows. The first lines of a series are written, and then one
/// line for each window with the numbers by cause. At `debug`, each event has its line. The words of the causes are the
/// labels of the metrics.
package final class ClientFaultLog: Sendable {
  package let handshakes = CrowdLog<HandshakeCause>(.handshakes)
  package let refusals = CrowdLog<ClientRefusal>(.refusals)
  package let limits = CrowdLog<LimitEvent>(.handshakes)

  /// Logs who was refused a request, and why. Of many refusals, the log gets some lines and then their number.
  @inline(never)
  func logRefusal(of exchange: Exchange, _ refusal: ClientRefusal, _ level: LogLevel, _ reason: String) {
    let writes = refusals.note(refusal, of: exchange.clientAddress.host, now: exchange.worker.loop.now)
    exchange.log(
      writes ? level : .debug, fields: refusal.journalFields(of: exchange, reason),
      reason + exchange.facts.loggedClient)
  }

  /// Writes the summaries that are due; at the end of the process all.
  package func tick(_ log: ErrorLog, now: UInt64, isLast: Bool) {
    if let summary = handshakes.due(now: now, isLast: isLast) {
      // A client's fault is for `info`, a flood of them for the operator.
      log.log(summary.isFlood ? .notice : .info, "more handshakes of clients failed: \(summary.words)")
    }
    if let summary = limits.due(now: now, isLast: isLast) {
      log.log(summary.isFlood ? .notice : .info, "more clients met a limit: \(summary.words)")
    }
    if let summary = refusals.due(now: now, isLast: isLast) {
      // At the level of the lines that it stands for.
      log.log(summary.counts[.rule] == nil ? .notice : .error, "more clients were refused: \(summary.words)")
    }
  }
}

extension ClientSession {
  /// The level for a failed handshake, and whether it has a line of its own. Below that, each has one at `debug`.
  func judgeFailure(_ tls: TLSStream, _ cause: HandshakeCause) -> (level: LogLevel, writes: Bool) {
    let faults = worker.shared.clientFaults
    let (host, now) = (facts.peer.host, worker.loop.now)
    switch cause {
    case .rule: return (.error, faults.refusals.note(.rule, of: host, now: now))
    case .certificate, .noCertificate: return (.notice, faults.refusals.note(.certificate, of: host, now: now))
    case .internal, .noServerCertificate: return (.error, faults.handshakes.note(cause, of: host, now: now))
    default: return (.info, faults.handshakes.note(cause, of: host, now: now))
    }
  }
}

extension Worker {
  /// Counts that a client met a limit. Returns whether the caller writes a line about it.
  package func note(_ event: LimitEvent, of client: SocketAddress) -> Bool {
    counters.limits.count(event)
    return shared.clientFaults.limits.note(event, of: client.host, now: loop.now)
  }

  /// Writes the summaries of folded lines. All workers share them, so the first one writes.
  func tellOfFolded(isLast: Bool = false) {
    guard loop.index == 0, let log = live?.generation.errorLog else { return }
    shared.faults.tick(now: loop.now, isLast: isLast)
    shared.clientFaults.tick(log, now: loop.now, isLast: isLast)
  }
}

extension Certificate {
  /// The certificate's names as fields of the journal, each cut to 1024 octets.
  var journalFields: [JournalField: String] {
    func bounded(_ text: String) -> String { String(decoding: text.utf8.prefix(1024), as: UTF8.self) }
    return [
      .subject: bounded(subject.rfc2253), .issuer: bounded(issuer.rfc2253), .serial: bounded(serial),
      .fingerprint: sha1Fingerprint,
    ]
  }
}

extension ClientRefusal {
  /// The fields of a line about a client that was refused a request.
  func journalFields(of exchange: Exchange, _ reason: String) -> [JournalField: String] {
    var fields = journalFields(reason, exchange.facts.clientVerdict?.certificate)
    fields[.client] = exchange.clientAddress.host
    fields[.server] = exchange.session.loggedName(of: exchange.server)
    return fields
  }

  /// `certificate`: the one that the client showed.
  func journalFields(_ reason: String, _ certificate: Certificate?) -> [JournalField: String] {
    var fields = certificate?.journalFields ?? [:]
    fields[.kind] = JournalKind.clientRefused.rawValue
    fields[.verdict] = rawValue
    fields[.reason] = reason
    return fields
  }
}
