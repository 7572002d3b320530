import Crypto
import Glibc
import Loading
import Observability
package import TLS

/// What the files of a configuration tell the doctor, and what a probe of an upstream does.
extension DoctorReport {
  /// The end of something that was loaded. `usual`: how many days before its end a warning comes.
  package mutating func add(end: Int64?, of name: String, at now: Int64, within days: Int64 = 30) {
    guard let end, end > now, end - now <= days * 86_400 else { return }
    add(.certificates, .warning, "\(name) \(ExpiryWords.ends(end, at: now))")
  }

  /// What requests to the API have changed, which a restart forgets or the file doesn't say.
  package mutating func add(changes: [String]) {
    for change in changes { add(.changes, .warning, change) }
    if changes.isEmpty { add(.changes, .good, "nothing is changed by the API") }
  }

  /// The configuration, as `sallyport check` judges it. Drops the privileges of root, so it comes last.
  package mutating func addCheck(_ path: String, _ scope: Check.Scope) {
    var check = Check(path, scope)
    check.becomeServingUser()
    let errors = check.diagnostics.filter { $0.severity == .error }
    let warnings = check.diagnostics.filter { $0.severity == .warning }
    for (state, found) in [(State.failed, errors), (.warning, warnings)] {
      for diagnostic in found {
        let place = diagnostic.location.map { "\($0): " } ?? ""
        add(.configuration, state, "\(place)\(diagnostic.message)\(diagnostic.hint.map { " (\($0))" } ?? "")")
      }
    }
    if errors.isEmpty { add(.configuration, .good, "\(path) is valid, and its files and names are there") }
  }

  /// The certificates of ACME, by the folders of their issuers.
  package mutating func addOrders(of path: String, at now: Int64) {
    guard let status = try? ACMEStatus(configuration: path) else { return }
    for certificate in status.certificates {
      let name = "\(certificate.names.joined(separator: ", ")) of \(certificate.issuer)"
      if let fault = certificate.fault {
        add(.orders, .failed, "\(name): \(fault)")
      } else if let end = certificate.notAfter, end > now {
        let failed = certificate.record.failures > 0
        let reason = failed ? "; \(certificate.record.failures) attempts failed: \(certificate.record.lastError)" : ""
        add(.orders, failed ? .warning : .good, "\(name) \(ExpiryWords.ends(end, at: now))\(reason)")
      } else {
        let reason = certificate.record.lastError
        add(.orders, .failed, "\(name): there is no valid certificate\(reason.isEmpty ? "" : ": \(reason)")")
      }
    }
  }

  /// What handshakes with upstreams have shown. `name`: a server's URL and address. A server that several locations judge
  /// in different ways is told with them.
  package mutating func add(_ servers: [(name: String, places: [String], report: ProbeReport)]) {
    let counts = Dictionary(servers.map { ($0.name, 1) }, uniquingKeysWith: +)
    for server in servers {
      let (state, text) = Self.judge(server.report)
      let isOne = counts[server.name] == 1
      let place = isOne && state == .good ? "" : " (\(server.places.joined(separator: "; ")))"
      add(.upstreams, state, "\(server.name)\(place) \(text)")
    }
  }

  static func judge(_ report: ProbeReport) -> (State, String) {
    if let failure = report.failure, report.trust == .unknown {
      return (.failed, (report.fault?.words ?? failure) + (report.advice.map { ": \($0)" } ?? ""))
    }
    switch report.trust {
    case .refused(_, let reason): return (.failed, "isn't trusted: \(reason)")
    case .unverified: return (.warning, "is verified by nothing (proxy_ssl_verify off)")
    case .unknown: return (.failed, "has shown no certificate")
    case .reportOnly(let warning): return (.warning, "is trusted for the time being: \(warning)")
    case .trusted: break
    }
    switch report.acceptance {
    case .notAsked, .accepted: return (.good, "is trusted, and serves: \(report.protocolName)")
    case .refused(let reason): return (.failed, "refuses our certificate: \(reason)")
    // Of these statuses some are for a certificate; most others are for the path of the probe.
    case .undecided(let status) where [400, 401, 403, 495, 496].contains(status):
      return (.warning, "is trusted, and answers with status \(status), perhaps for our certificate")
    case .undecided(let status): return (.good, "is trusted, and serves: status \(status)")
    case .unknown(let reason): return (.failed, "is trusted, and gave no answer: \(reason)")
    }
  }
}
