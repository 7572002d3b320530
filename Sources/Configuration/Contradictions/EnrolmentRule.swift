import Crypto
import Enrolment
import Observability
import Proxy
import TLS

/// What a location that gives out certificates can't be, or should not.
enum EnrolmentRule {
  static func check(_ level: Level, _ scope: Scope) -> [Diagnostic] {
    guard let line = scope.own("enrolment").first else { return [] }
    var found: [Diagnostic] = []
    for name in ["proxy_pass", "metrics"] {
      guard let other = scope.own(name).first else { continue }
      found.append(
        Diagnostic(
          .error, at: line.location, "\"enrolment\" beside \"\(name)\": a location can have only one content handler",
          hint: "use a separate location; \(name) is at \(other.location)"))
    }
    if let asked = scope.seconds("enrolment_renew_before"), asked >= CertificateProfile.clientDays * 86_400,
      let place = scope.value("enrolment_renew_before")?.location
    {
      found.append(
        Diagnostic(
          .warning, at: place,
          "\"enrolment_renew_before\" is not shorter than the validity of a certificate: a device could renew at any time, without limit",
          hint: "less than \(CertificateProfile.clientDays)d"))
    }
    if !isEncrypted(level) {
      found.append(
        Diagnostic(
          .warning, at: line.location,
          "\"enrolment\" without TLS: passwords and pass phrases are sent unencrypted",
          hint: "listen … ssl"))
    }
    return found
  }

  /// A server that lets in whom an authority of ours has certified, and looks at no list of whom it has revoked.
  ///
  /// A responder (`ssl_ocsp`) is a look, too. Another list than crl.pem is none: nobody renews it with a revocation.
  static func unrevoked(_ servers: [ServerSettings]) -> [Diagnostic] {
    let authorities = servers.flatMap { desks($0.root) }.map(\.authority)
    return servers.compactMap { server in
      guard let tls = server.tls, tls.verification != .off, tls.clientStatus.extent == .off else { return nil }
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
          "this server admits clients that the authority \"\(unheeded)\" of \"enrolment\" has revoked: no ssl_crl names its crl.pem",
          hint: "ssl_crl \(unheeded)/crl.pem;")
      }
      return nil
    }
  }

  private static func desks(_ location: LocationSettings) -> [EnrolmentSettings] {
    let inner = location.locations.flatMap { desks($0) }
    if case .enrolment(let desk) = location.action { return [desk] + inner }
    return inner
  }

  /// Whether every address of the server speaks TLS, as far as its own lines tell.
  private static func isEncrypted(_ level: Level) -> Bool {
    switch level {
    case .location(_, _, let outer): isEncrypted(outer)
    case .server(let scope):
      scope.flag("ssl") == true
        || !scope.own("listen").isEmpty
          && scope.own("listen").allSatisfy {
            $0.arguments.contains { $0.text == "ssl" } || $0.text(0).hasPrefix("unix:")
          }
    }
  }
}
