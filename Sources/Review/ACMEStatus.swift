import ACME
import Configuration
import Crypto
import Features
import Glibc
package import Loading
package import Observability
import Traffic

/// What the folders of `acme_issuer` tell of certificates, and the request for new ones: for `sallyport acme`.
///
/// It reads the configuration and the folders, not the process: so it tells of a process that does not run, too. Blocks.
package struct ACMEStatus: Sendable {
  /// A certificate of the configuration.
  package struct Certificate: Sendable {
    package let issuer: String
    package let names: [String]
    package let file: String
    /// Seconds since 1970; nil: there is none.
    package let notAfter: Int64?
    /// Why a file that is there can't be used; nil: it can, or there is none.
    package let fault: String?
    package let record: RenewalSummary
    fileprivate let settings: ACMECertificateSettings
  }

  /// What the last attempt left.
  package struct RenewalSummary: Sendable {
    package let failures: Int
    /// In all.
    package let attempts: Int64
    package let attemptedAt: Int64
    package let nextTry: Int64
    package let lastError: String
  }

  package let certificates: [Certificate]

  /// Throws the errors of the configuration.
  package init(configuration path: String) throws(Refusal) {
    let (settings, _, diagnostics) = Configuration.read(path: path)
    guard let settings else { throw Refusal(diagnostics) }
    certificates = settings.http[ACMESettings.self].certificates.map { Self.certificate($0) }
  }

  private static func certificate(_ settings: ACMECertificateSettings) -> Certificate {
    let record = StateFolder(settings.issuer.stateFolder).record(of: settings.fileName)
    var end: Int64?
    var fault: String?
    if access(settings.path, F_OK) == 0 {
      do throws(MaterialError) {
        let found = try Crypto.Certificate.loadAll(MaterialReference(path: settings.path))
        end = found.first?.notAfter.seconds
      } catch {
        fault = error.message
      }
    }
    return Certificate(
      issuer: settings.issuer.name, names: settings.names.map(\.description), file: settings.path, notAfter: end,
      fault: fault,
      record: RenewalSummary(
        failures: record.failures, attempts: record.attempts, attemptedAt: record.attemptedAt, nextTry: record.nextTry,
        lastError: record.lastError),
      settings: settings)
  }

  /// The certificates with a name, or with an issuer, of this name.
  package func named(_ name: String?) -> [Certificate] {
    guard let name else { return certificates }
    return certificates.filter { $0.issuer == name || $0.names.contains(name.lowercased()) }
  }

  /// Asks the process that serves for a new certificate.
  package static func askForRenewal(of certificate: Certificate) throws(ACMERequestError) {
    do throws(ACMEError) {
      try StateFolder(certificate.settings.issuer.stateFolder).askForRenewal(of: certificate.settings.fileName)
    } catch {
      throw ACMERequestError(description: error.description)
    }
  }

  /// Reads again what is known of a certificate.
  package static func again(_ certificate: Certificate) -> Certificate { Self.certificate(certificate.settings) }
}

/// Why a request for a certificate can't be left.
package struct ACMERequestError: Error, Sendable, CustomStringConvertible {
  package let description: String
}

extension ACMEStatus.Certificate {
  /// One line for a person.
  package func words(at now: Int64) -> String {
    let subject = "\(issuer): \(names.joined(separator: ", "))"
    var words: String
    if let fault {
      words = "\(subject): \(fault)"
    } else if let notAfter {
      words = "\(subject): \(notAfter > now ? "valid and " : "")\(ExpiryWords.ends(notAfter, at: now))"
    } else {
      words = "\(subject): no certificate yet"
    }
    if record.failures > 0 {
      let count = "\(record.failures) \(record.failures == 1 ? "attempt" : "attempts") failed"
      words += "; \(count), the next one is in \(max(0, record.nextTry - now)) s: \(record.lastError)"
    }
    return LogEscape.visible(words)
  }

  package func write(to json: inout JSONText) {
    json.object { json in
      json.member("issuer", issuer)
      json.array("names", names) { $1.value($0) }
      json.member("file", file)
      json.member("not_after", notAfter)
      json.member("fault", fault)
      json.member("failures", record.failures)
      json.member("attempted_at", record.attemptedAt)
      json.member("next_try", record.nextTry)
      json.member("last_error", record.lastError)
    }
  }

  /// Whether somebody should look.
  package func isTroubled(at now: Int64) -> Bool {
    fault != nil || notAfter.map { $0 <= now } ?? true || record.failures > 0
  }
}
