import Observability
import TLS
import Language

/// A server's TLS directives, as input of the rules.
struct ServerTLSFacts {
  var scope: Scope
  /// The TLS settings; nil when no `listen` of the server uses TLS.
  var tls: ServerTLSSettings?
  /// Whether a `listen` of the server uses plain HTTP.
  var alsoPlain = false
  var isOfStream = false
  /// Whether a front may send clients' certificates in a field (`real_client_cert_from`), also over plain HTTP.
  var takesRelayedClients = false
  /// The settings by which clients are judged; nil: nobody is.
  var clients: ServerTLSSettings?
  var place: SourceLocation

  /// The first line of revocation lists in effect, and the line about OCSP.
  var revocationLine: Directive? { scope.list("ssl_crl").first }
  var statusLine: Directive? { scope.value("ssl_ocsp") }

  /// Returns the server's own line of this name.
  func own(_ name: String) -> Directive? { scope.own(name).last }
}

extension ServerTLSFacts {
  /// Returns an error if the server never requests a certificate from a client.
  func unasked(_ line: Directive, hint: String) -> Diagnostic? {
    // A server that refuses every handshake has no clients, so the rule does not apply.
    if let tls, tls.rejectsHandshake, !alsoPlain { return nil }
    let reason: String
    switch (tls ?? clients)?.verification {
    case nil: reason = "has no listen with ssl"
    case .off: reason = "says ssl_verify_client off"
    case .on, .optional, .optionalNoCA: return nil
    }
    return Diagnostic(
      .error, at: line.location,
      "\"\(line.name)\" needs client certificates, but the server at \(place) \(reason)",
      hint: hint)
  }
}

/// Errors in a server's TLS directives for clients. Each case is one rule.
enum ServerTLSRule: CaseIterable {
  case noCertificate
  case verificationWithoutAnchors
  case anchorsWithoutVerification
  case verificationOfPlainText
  case verificationBesidePlainText
  case certificateForPlainText
  case revocationWithoutVerification
  case fetchWithoutVerification
  case fetchWithoutReload
  case cacheWithoutFetch
  case ticketKeysWithoutTickets
  case statusWithoutVerification
  case earlyDataWithoutEffect
  case compressionWithoutEffect
  case certificatesReadInHandshakes
  case cacheOfNoCertificates
  case staplingOfNamedCertificates
  case rejectionWithoutVerification
  case reportWithoutVerification
  case reportBesideRejection

  func diagnostic(_ facts: ServerTLSFacts) -> Diagnostic? {
    switch self {
    case .noCertificate:
      guard let tls = facts.tls, facts.scope.list("ssl_certificate").isEmpty, !tls.rejectsHandshake else { return nil }
      return Diagnostic(
        .error, at: facts.place, "no \"ssl_certificate\" is defined for a server that listens with ssl",
        hint: "ssl_certificate FILE; ssl_certificate_key FILE; or ssl_reject_handshake on;")
    case .verificationWithoutAnchors:
      guard let tls = facts.tls ?? facts.clients, tls.verification == .on || tls.verification == .optional,
        facts.scope.value("ssl_client_certificate") == nil, facts.scope.value("ssl_trusted_certificate") == nil,
        !ClientTrust.isPinned(facts.scope)
      else { return nil }
      return Diagnostic(
        .error, at: facts.scope.value("ssl_verify_client")?.location ?? facts.place,
        "no ssl_client_certificate or ssl_trusted_certificate for ssl_verify_client",
        hint: "name the CA that client certificates come from: ssl_client_certificate ca.cer;"
          + (facts.takesRelayedClients ? "" : " or pin the clients' keys: ssl_client_pin sha256//…;"))
    case .anchorsWithoutVerification:
      guard let tls = facts.tls, tls.verification == .off, facts.own("ssl_verify_client") == nil,
        let line = facts.scope.value("ssl_client_certificate")
      else { return nil }
      return Diagnostic(
        .warning, at: line.location, "the server does not ask for client certificates: ssl_verify_client is off",
        hint: "ssl_verify_client on; or write ssl_verify_client off; to confirm")
    case .verificationOfPlainText:
      guard facts.tls == nil, !facts.takesRelayedClients, let line = facts.own("ssl_verify_client"),
        line.text(0).lowercased() != "off"
      else { return nil }
      return Diagnostic(
        .error, at: line.location, "no client can present a certificate: the server has no listen with ssl",
        hint: "listen 443 ssl;")
    case .verificationBesidePlainText:
      guard facts.alsoPlain, !facts.takesRelayedClients, let tls = facts.tls, tls.verification != .off else {
        return nil
      }
      return Diagnostic(
        .warning, at: facts.scope.value("ssl_verify_client")?.location ?? facts.place,
        "clients of this server's listen without ssl can't present a certificate",
        hint: facts.isOfStream
          ? "use a separate server for it"
          : "use a separate server for it, with: return 301 https://$host$request_uri;")
    case .certificateForPlainText:
      guard facts.tls == nil, let line = facts.own("ssl_certificate") else { return nil }
      return Diagnostic(
        .warning, at: line.location, "the certificate is never used: the server has no listen with ssl",
        hint: "listen 443 ssl;")
    case .revocationWithoutVerification:
      guard let tls = facts.tls, tls.verification == .off, let line = facts.scope.own("ssl_crl").first else {
        return nil
      }
      return Diagnostic(
        .warning, at: line.location, "\"ssl_crl\" has no effect: the server asks no client for a certificate",
        hint: "ssl_verify_client on;")
    case .fetchWithoutVerification:
      guard let tls = facts.tls, tls.revocationFetch.points != .none, let line = facts.scope.value("ssl_crl_fetch"),
        tls.verification == .off || tls.verification == .optionalNoCA
      else { return nil }
      return Diagnostic(
        .error, at: line.location,
        "\"ssl_crl_fetch\" is incompatible with \"ssl_verify_client \(tls.verification.rawValue)\"",
        hint: "only a verified chain may name what is fetched: ssl_verify_client on;")
    case .fetchWithoutReload:
      guard let tls = facts.tls, tls.revocationFetch.isOn, !tls.reloads, let line = facts.scope.value("ssl_reload")
      else {
        return nil
      }
      return Diagnostic(
        .error, at: line.location, "\"ssl_reload off\" where revocation lists are fetched: no new list would count",
        hint: "ssl_reload on; or name files with ssl_crl")
    case .cacheWithoutFetch:
      // A URL with an error is reported as that.
      guard let tls = facts.tls, !tls.revocationFetch.isOn, let line = facts.own("ssl_crl_cache"),
        !facts.scope.list("ssl_crl").contains(where: { $0.arguments.contains { $0.text.contains("://") } })
      else { return nil }
      return Diagnostic(
        .warning, at: line.location, "\"ssl_crl_cache\" has no effect: no revocation list is fetched here",
        hint: "ssl_crl http://…; or ssl_crl_fetch HOST;")
    case .ticketKeysWithoutTickets:
      guard let tls = facts.tls, !tls.sessionTickets || tls.sessionCache == .off,
        let line = facts.scope.own("ssl_session_ticket_key").first
      else { return nil }
      return Diagnostic(
        .warning, at: line.location, "\"ssl_session_ticket_key\" has no effect: the server issues no tickets",
        hint: "remove it, or ssl_session_tickets off and ssl_session_cache off")
    case .earlyDataWithoutEffect:
      guard let tls = facts.tls, tls.earlyData, let reason = tls.earlyDataHindrance,
        let line = facts.scope.value("ssl_early_data")
      else { return nil }
      return Diagnostic(
        .warning, at: line.location, "\"ssl_early_data\" has no effect: \(reason)", hint: "ssl_early_data off;")
    case .compressionWithoutEffect:
      guard let tls = facts.tls, tls.compressesCertificates, let reason = tls.compressionHindrance,
        let line = facts.scope.value("ssl_certificate_compression")
      else { return nil }
      return Diagnostic(
        .warning, at: line.location, "\"ssl_certificate_compression\" has no effect: \(reason)",
        hint: "ssl_certificate_compression off;")
    case .certificatesReadInHandshakes:
      let named = facts.tls?.namedCertificates.first { !$0.certificate.isContent || $0.key?.isContent == false }
      guard let named, facts.scope.value("ssl_certificate_cache") == nil else { return nil }
      return Diagnostic(
        .notice, at: named.certificate.location,
        "each handshake reads the files of \"\(named.certificate)\", as in nginx",
        hint: "ssl_certificate_cache max=1000 valid=1h; keeps them; or ssl_certificate_cache off; to confirm")
    case .cacheOfNoCertificates:
      guard let tls = facts.tls, tls.namedCertificates.isEmpty, let line = facts.own("ssl_certificate_cache"),
        line.text(0) != "off"
      else { return nil }
      return Diagnostic(
        .warning, at: line.location, "\"ssl_certificate_cache\" has no effect: no certificate here has variables",
        hint: "other certificates are read at start and at reload, and stay in memory")
    case .staplingOfNamedCertificates:
      guard let tls = facts.tls, !tls.namedCertificates.isEmpty, tls.stapling != .off,
        let line = facts.scope.value("ssl_stapling")
      else { return nil }
      return Diagnostic(
        .warning, at: line.location, "\"ssl_stapling\" has no effect: handshakes choose the certificates, as in nginx",
        hint: "ssl_stapling off; in this server")
    case .rejectionWithoutVerification:
      guard let line = facts.own("ssl_verify_reject"), line.text(0).lowercased() == "handshake" else { return nil }
      return facts.unasked(line, hint: "ssl_verify_client on, or optional")
    case .reportWithoutVerification:
      guard let line = facts.own("ssl_verify_report_only"), facts.scope.flag("ssl_verify_report_only") == true else {
        return nil
      }
      return facts.unasked(line, hint: "ssl_verify_client on, or optional")
    case .reportBesideRejection:
      guard facts.scope.flag("ssl_verify_report_only") == true, let line = facts.scope.value("ssl_verify_report_only"),
        let other = facts.scope.value("ssl_verify_reject"), other.text(0).lowercased() == "handshake"
      else { return nil }
      return Diagnostic(
        .error, at: line.location, "\"ssl_verify_report_only on\" beside \"ssl_verify_reject handshake\"",
        hint:
          "a client that is only reported is refused in no way: remove one of the two; the other is at \(other.location)"
      )
    case .statusWithoutVerification:
      guard let tls = facts.tls, tls.clientStatus.extent != .off, let line = facts.scope.value("ssl_ocsp") else {
        return nil
      }
      switch tls.verification {
      case .on, .optional: return nil
      case .off, .optionalNoCA:
        return Diagnostic(
          .error, at: line.location,
          "\"ssl_ocsp\" is incompatible with \"ssl_verify_client \(tls.verification.rawValue)\"",
          hint: "OCSP needs verified chains: ssl_verify_client on;")
      }
    }
  }

  /// Checks the number of keys. The n-th key belongs to the n-th certificate; fewer keys would make pairing a guess.
  static func keysForCertificates(certificates: [Directive], keys: [Directive]) -> Diagnostic? {
    if keys.isEmpty || keys.count == certificates.count { return nil }
    if let certificate = certificates.dropFirst(keys.count).first {
      return Diagnostic(
        .error, at: certificate.location,
        "no \"ssl_certificate_key\" is defined for certificate \"\(certificate.text(0))\"",
        hint:
          "write the keys in the order of the certificates; a PKCS#12 among several certificates needs a key line too")
    }
    let key = keys[certificates.count]
    return Diagnostic(
      .error, at: key.location, "\"ssl_certificate_key\" without \"ssl_certificate\"",
      hint: "name the certificate that the key belongs to")
  }
}
