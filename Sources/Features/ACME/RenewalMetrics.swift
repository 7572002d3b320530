import Observability
import Synchronization
package import Traffic

/// How the certificates stand that the process renews by itself: as many as the configuration names.
package final class ACMERenewals: SharedPart {
  private let states = Mutex<[ACMERenewalState]>([])

  package init(_ shared: SharedState) {}

  var all: [ACMERenewalState] { states.withLock { $0 } }
  package func take(_ states: [ACMERenewalState]) { self.states.withLock { $0 = states } }
}

extension ACMECertificates {
  /// Why an attempt failed is on the status page and in the log: a server's text is no label.
  static func measure(_ snapshot: MetricsSnapshot, _ page: inout MetricsWriter) {
    let renewals = snapshot.shared[ACMERenewals.self].all
    guard !renewals.isEmpty else { return }
    let families: [(name: String, help: String, value: (ACMERenewalState) -> Int64)] = [
      (
        "sallyport_acme_certificate_end_timestamp_seconds",
        "When a certificate of acme_certificate ends; 0 while there is none.", { $0.notAfter ?? 0 }
      ),
      (
        "sallyport_acme_next_try_timestamp_seconds", "When the next attempt to renew it is due, as far as it is known.",
        { $0.nextTry }
      ),
      (
        "sallyport_acme_failures", "Attempts that failed since the last one that did not.", { Int64($0.failures) }
      ),
    ]
    for family in families {
      page[.certificates].family(family.name, .gauge, family.help)
      for renewal in renewals {
        page[.certificates].sample(
          family.name, ["issuer": renewal.issuer, "names": renewal.names], family.value(renewal))
      }
    }
  }

  static func problems(_ shared: SharedState, _ generation: Generation, at now: Int64) -> [StatusProblem] {
    shared[ACMERenewals.self].all.compactMap { renewal in
      renewal.trouble(at: now).map { StatusProblem(.renewals, $0.isServing ? .warning : .error, $0.words) }
    }
  }
}
