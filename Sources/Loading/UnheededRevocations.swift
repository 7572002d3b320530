import Crypto
import Enrolment
import Features
import Forward
package import Observability
import TLS
package import Traffic

/// Finds servers that accept certificates of an authority of this configuration but do not check its CRL.
///
/// A server that asks an OCSP responder (`ssl_ocsp`) checks, too. Only crl.pem counts: a revocation renews no other
/// list. Follows links, so never call it on an event loop.
package enum UnheededRevocations {
  package static func warnings(_ http: HTTPSettings) -> [Diagnostic] {
    let authorities = http.everyLocation.compactMap { place -> MaterialReference? in
      place.settings[EnrolmentSettings.self]?.authority
    }
    guard !authorities.isEmpty else { return [] }
    return http.servers.compactMap { server in
      guard let tls = server.clientPolicy, tls.verification != .off, tls.clientStatus.extent == .off else { return nil }
      let lists = Set(tls.revocationLists.compactMap { $0.realPath() })
      for anchor in [tls.clientCertificate, tls.trustedCertificate].compactMap({ $0 }) {
        let unheeded = authorities.first { authority in
          guard let list = authority.realPath("crl.pem"), authority.realPath("ca.crt") == anchor.realPath() else {
            return false
          }
          return !lists.contains(list)
        }
        guard let unheeded else { continue }
        return Diagnostic(
          .warning, at: anchor.location ?? server.location,
          "this server accepts certificates that the authority \"\(unheeded)\" of \"enrolment\" has revoked: it does not check its crl.pem",
          hint: "ssl_crl \(unheeded)/crl.pem;")
      }
      return nil
    }
  }
}
