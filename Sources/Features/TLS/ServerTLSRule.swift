import Forward
import Language
import Observability
import TLS
import Traffic

extension ServerBlock {
  /// The first line of revocation lists in effect, and the line about OCSP.
  var revocationLine: Directive? { ServerTLS.revocationList.line(in: scope) }
  var statusLine: Directive? { ServerTLS.status.line(in: scope) }
}

extension ServerTLS {
  static func judge(_ block: ServerBlock, _ builder: inout SettingsBuilder) {
    builder.diagnostics += ServerTLSRule.allCases.compactMap { $0.diagnostic(block) }
    builder.diagnostics += ServerWorkloadRule.allCases.compactMap { $0.diagnostic(block) }
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

  func diagnostic(_ block: ServerBlock) -> Diagnostic? {
    switch self {
    case .noCertificate:
      guard let tls = block.tls, block.lines(ServerTLS.certificate).isEmpty, !tls.rejectsHandshake else { return nil }
      return Diagnostic(
        .error, at: block.place, "no \"ssl_certificate\" is defined for a server that listens with ssl",
        hint: "ssl_certificate FILE; ssl_certificate_key FILE; or ssl_reject_handshake on;")
    case .verificationWithoutAnchors:
      guard let tls = block.clients, tls.verification == .on || tls.verification == .optional,
        block.line(ServerTLS.clientCertificate) == nil,
        block.line(ServerTLS.trustedCertificate) == nil,
        !block.hasClientPins
      else { return nil }
      return Diagnostic(
        .error, at: block.line(ServerTLS.verification)?.location ?? block.place,
        "no ssl_client_certificate or ssl_trusted_certificate for ssl_verify_client",
        hint: "name the CA that client certificates come from: ssl_client_certificate ca.cer;"
          + (block.takesRelayedClients ? "" : " or pin the clients' keys: ssl_client_pin sha256//…;"))
    case .anchorsWithoutVerification:
      guard let tls = block.tls, tls.verification == .off, block.own(ServerTLS.verification) == nil,
        let line = block.line(ServerTLS.clientCertificate)
      else { return nil }
      return Diagnostic(
        .warning, at: line.location, "the server does not ask for client certificates: ssl_verify_client is off",
        hint: "ssl_verify_client on; or write ssl_verify_client off; to confirm")
    case .verificationOfPlainText:
      guard block.tls == nil, !block.takesRelayedClients, let line = block.own(ServerTLS.verification),
        line.text(0).lowercased() != "off"
      else { return nil }
      return Diagnostic(
        .error, at: line.location, "no client can present a certificate: the server has no listen with ssl",
        hint: "listen 443 ssl;")
    case .verificationBesidePlainText:
      guard block.alsoPlain, !block.takesRelayedClients, let tls = block.tls, tls.verification != .off else {
        return nil
      }
      return Diagnostic(
        .warning, at: block.line(ServerTLS.verification)?.location ?? block.place,
        "clients of this server's listen without ssl can't present a certificate",
        hint: block.kind == .stream
          ? "use a separate server for it"
          : "use a separate server for it, with: return 301 https://$host$request_uri;")
    case .certificateForPlainText:
      guard block.tls == nil, let line = block.own(ServerTLS.certificate) else { return nil }
      return Diagnostic(
        .warning, at: line.location, "the certificate is never used: the server has no listen with ssl",
        hint: "listen 443 ssl;")
    case .revocationWithoutVerification:
      guard let tls = block.tls, tls.verification == .off, let line = ServerTLS.revocationList.ownLine(in: block.scope)
      else { return nil }
      return Diagnostic(
        .warning, at: line.location, "\"ssl_crl\" has no effect: the server asks no client for a certificate",
        hint: "ssl_verify_client on;")
    case .fetchWithoutVerification:
      guard let tls = block.tls, tls.revocationFetch.points != .none,
        let line = block.line(ServerTLS.revocationFetch),
        tls.verification == .off || tls.verification == .optionalNoCA
      else { return nil }
      return Diagnostic(
        .error, at: line.location,
        "\"ssl_crl_fetch\" is incompatible with \"ssl_verify_client \(tls.verification.rawValue)\"",
        hint: "only a verified chain may name what is fetched: ssl_verify_client on;")
    case .fetchWithoutReload:
      guard let tls = block.tls, tls.revocationFetch.isOn, !tls.reloads,
        let line = block.line(ServerTLS.reload)
      else { return nil }
      return Diagnostic(
        .error, at: line.location, "\"ssl_reload off\" where revocation lists are fetched: no new list would count",
        hint: "ssl_reload on; or name files with ssl_crl")
    case .cacheWithoutFetch:
      // A URL with an error is reported as that.
      guard let tls = block.tls, !tls.revocationFetch.isOn,
        let line = block.own(ServerTLS.revocationCache),
        !block.lines(ServerTLS.revocationList).contains(where: {
          $0.arguments.contains { $0.text.contains("://") }
        })
      else { return nil }
      return Diagnostic(
        .warning, at: line.location, "\"ssl_crl_cache\" has no effect: no revocation list is fetched here",
        hint: "ssl_crl http://…; or ssl_crl_fetch HOST;")
    case .ticketKeysWithoutTickets:
      guard let tls = block.tls, !tls.sessionTickets || tls.sessionCache == .off,
        let line = ServerTLS.ticketKey.ownLine(in: block.scope)
      else { return nil }
      return Diagnostic(
        .warning, at: line.location, "\"ssl_session_ticket_key\" has no effect: the server issues no tickets",
        hint: "remove it, or ssl_session_tickets off and ssl_session_cache off")
    case .earlyDataWithoutEffect:
      guard let tls = block.tls, tls.earlyData, let reason = tls.earlyDataHindrance,
        let line = block.line(ServerTLS.earlyData)
      else { return nil }
      return Diagnostic(
        .warning, at: line.location, "\"ssl_early_data\" has no effect: \(reason)", hint: "ssl_early_data off;")
    case .compressionWithoutEffect:
      guard let tls = block.tls, tls.compressesCertificates, let reason = tls.compressionHindrance,
        let line = block.line(ServerTLS.compression)
      else { return nil }
      return Diagnostic(
        .warning, at: line.location, "\"ssl_certificate_compression\" has no effect: \(reason)",
        hint: "ssl_certificate_compression off;")
    case .certificatesReadInHandshakes:
      let named = block.tls?.namedCertificates.first { !$0.certificate.isContent || $0.key?.isContent == false }
      guard let named, block.line(ServerTLS.certificateCache) == nil else { return nil }
      return Diagnostic(
        .notice, at: named.certificate.location,
        "each handshake reads the files of \"\(named.certificate)\", as in nginx",
        hint: "ssl_certificate_cache max=1000 valid=1h; keeps them; or ssl_certificate_cache off; to confirm")
    case .cacheOfNoCertificates:
      guard let tls = block.tls, tls.namedCertificates.isEmpty,
        let line = block.own(ServerTLS.certificateCache),
        line.text(0) != "off"
      else { return nil }
      return Diagnostic(
        .warning, at: line.location, "\"ssl_certificate_cache\" has no effect: no certificate here has variables",
        hint: "other certificates are read at start and at reload, and stay in memory")
    case .staplingOfNamedCertificates:
      guard let tls = block.tls, !tls.namedCertificates.isEmpty, tls.stapling != .off,
        let line = block.line(ServerTLS.stapling)
      else { return nil }
      return Diagnostic(
        .warning, at: line.location, "\"ssl_stapling\" has no effect: handshakes choose the certificates, as in nginx",
        hint: "ssl_stapling off; in this server")
    case .rejectionWithoutVerification:
      guard let line = block.own(ServerTLS.rejection), line.text(0).lowercased() == "handshake" else { return nil }
      return block.unasked(line, hint: "ssl_verify_client on, or optional")
    case .reportWithoutVerification:
      guard let line = block.own(ServerTLS.reportOnly), block.flag(ServerTLS.reportOnly) == true else { return nil }
      return block.unasked(line, hint: "ssl_verify_client on, or optional")
    case .reportBesideRejection:
      guard block.flag(ServerTLS.reportOnly) == true, let line = block.line(ServerTLS.reportOnly),
        let other = block.line(ServerTLS.rejection), other.text(0).lowercased() == "handshake"
      else { return nil }
      return Diagnostic(
        .error, at: line.location, "\"ssl_verify_report_only on\" beside \"ssl_verify_reject handshake\"",
        hint:
          "a client that is only reported is refused in no way: remove one of the two; the other is at \(other.location)"
      )
    case .statusWithoutVerification:
      guard let tls = block.tls, tls.clientStatus.extent != .off, let line = block.line(ServerTLS.status) else {
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
