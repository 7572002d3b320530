import Crypto
package import Observability
package import TLS

/// Folds the lines about clients whose handshakes fail and about refused clients, over all workers.
///
/// Any host can cause such lines as fast as the network allows. The first lines of a series are written, and then one
/// line for each window with the numbers by cause. At `debug`, each event has its line. The words of the causes are the
/// labels of the metrics.
package final class ClientFaultLog: Sendable {
  package let handshakes = CrowdLog<HandshakeCause>(.handshakes)
  package let refusals = CrowdLog<ClientRefusal>(.refusals)
  package let limits = CrowdLog<LimitEvent>(.handshakes)

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
  /// `certificate`: the one that the client showed.
  func journalFields(_ reason: String, _ certificate: Certificate?) -> [JournalField: String] {
    var fields = certificate?.journalFields ?? [:]
    fields[.kind] = JournalKind.clientRefused.rawValue
    fields[.verdict] = rawValue
    fields[.reason] = reason
    return fields
  }
}
