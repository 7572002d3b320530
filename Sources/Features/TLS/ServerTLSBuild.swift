import Crypto
import Identity
import Observability
import TLS
import Language

extension ServerTLS {
  static func read(_ block: inout ServerBlock, _ builder: inout SettingsBuilder) {
    guard block.isTLS || block.takesRelayedClients else { return }
    var tls = builder.serverTLS(block.scope)
    tls.offersHTTP2 = block.http2.isOn
    block.linesOfTLS = tls
  }
}

extension SettingsBuilder {
  /// Builds a server's TLS settings for clients. Features that say more of clients add it (`Feature.read`).
  fileprivate mutating func serverTLS(_ scope: Scope) -> ServerTLSSettings {
    var tls = ServerTLSSettings()
    tls.presented = certificates(scope)
    tls.certificateCache = certificateCache(scope.value("ssl_certificate_cache"))
    tls.passwordFile = material(scope.passwordFile)
    tls.clientCertificate = material(scope.value("ssl_client_certificate"))
    tls.trustedCertificate = material(scope.value("ssl_trusted_certificate"))
    (tls.revocationLists, tls.revocationFetch) = revocation(scope)
    tls.reloads = scope.reloadsFiles
    tls.verification = scope.text("ssl_verify_client").flatMap { ClientVerification(rawValue: $0.lowercased()) } ?? .off
    // A protocol that isn't HTTP has no page for a refusal.
    let standard: ClientRejection = kind == .http ? .http : .handshake
    tls.rejection =
      scope.text("ssl_verify_reject").flatMap { ClientRejection(rawValue: $0.lowercased()) } ?? standard
    if scope.flag("ssl_verify_report_only") == true { tls.rejection = .reportOnly }
    tls.revokedConnections = revokedConnections(scope.value("ssl_revoked_connections"))
    tls.verifyDepth = scope.number("ssl_verify_depth") ?? 1
    tls.versions = versions(scope.value("ssl_protocols"))
    tls.ciphers = scope.text("ssl_ciphers")
    tls.preferServerCiphers = scope.flag("ssl_prefer_server_ciphers") ?? false
    tls.curvesDirective = "ssl_ecdh_curve"
    tls.curves = scope.text("ssl_ecdh_curve").flatMap { $0 == "auto" ? nil : $0 }
    tls.dhParameters = material(scope.value("ssl_dhparam"))
    tls.confCommands = confCommands(scope.list("ssl_conf_command"))
    tls.rejectsHandshake = scope.flag("ssl_reject_handshake") ?? false
    tls.sessionCache = sessionCache(scope.value("ssl_session_cache"))
    // As in nginx, the command is applied behind the directive.
    tls.sessionTickets = tls.confCommands.compactMap(\.sessionTickets).last ?? scope.flag("ssl_session_tickets") ?? true
    readTicketKeys(scope, &tls)
    tls.clientStatus = clientStatus(scope)
    tls.stapling = stapling(scope)
    tls.sessionTimeout = scope.seconds("ssl_session_timeout") ?? 300
    tls.earlyData = scope.flag("ssl_early_data") ?? false
    tls.compressesCertificates = scope.flag("ssl_certificate_compression") ?? false
    if let line = scope.value("ssl_buffer_size"), let size = Quantity.size(line.text(0)) {
      if (512...16384).contains(size) {
        tls.bufferSize = size
      } else {
        error(
          line.place(0), "invalid value \"\(line.text(0))\" in \"ssl_buffer_size\" directive",
          hint: "a TLS record carries 512 to 16384 bytes (16k)")
      }
    }
    return tls
  }

  /// Pairs keys with certificates: as in nginx, the n-th key belongs to the n-th certificate. Without keys, each
  /// certificate file must contain its own key.
  private mutating func certificates(_ scope: Scope) -> [PresentedCertificate] {
    let certificates = scope.list("ssl_certificate")
    let keys = scope.list("ssl_certificate_key")
    if let diagnostic = ServerTLSRule.keysForCertificates(certificates: certificates, keys: keys) {
      diagnostics.append(diagnostic)
      return []
    }
    return certificates.enumerated().compactMap { index, line in
      let key = index < keys.count ? keys[index] : nil
      if let own = ownCertificate(line, key, scope) {
        if case .source(let source) = own { return .fixed(source) }
        return nil
      }
      if line.hasVariables || key?.hasVariables ?? false {
        return namedCertificate(line, key, server: ServerNames.primary(scope)).map { .named($0) }
      }
      guard let certificate = material(line) else { return nil }
      return .fixed(CertificateSource(certificate: certificate, key: material(key)))
    }
  }

  /// What a feature has for a certificate that it gets by itself; nil: the lines name none of those.
  private mutating func ownCertificate(_ line: Directive, _ key: Directive?, _ scope: Scope) -> OwnCertificate? {
    for feature in Features.all {
      if let own = feature.certificate(line, key, scope, &self) { return own }
    }
    return nil
  }

  /// `ssl_session_ticket_key`: files, or a store.
  private mutating func readTicketKeys(_ scope: Scope, _ tls: inout ServerTLSSettings) {
    let lines = scope.list("ssl_session_ticket_key")
    guard let line = lines.first(where: { $0.text(0).hasPrefix("store:") }) else {
      tls.ticketKeys = lines.flatMap { materials($0) }
      return
    }
    let name = String(line.text(0).dropFirst("store:".count))
    guard lines.count == 1 else {
      return error(
        line.location, "\"ssl_session_ticket_key \(line.text(0))\" beside another line of it",
        hint: "the store has all the keys: leave the others out")
    }
    guard let store = self[SharedStores.self].stores[name] else {
      return error(
        line.place(0), "\"ssl_session_ticket_key\" names the store \"\(name)\", which no \"shared_store\" declares",
        hint: "shared_store \(name) rediss://HOST:PORT; in http")
    }
    guard store.isPrivate else {
      return error(
        line.place(0),
        "\"ssl_session_ticket_key\" of \"\(name)\": the keys would go over the network in clear, and who reads them reads the sessions",
        hint: "shared_store \(name) rediss://…; or a unix socket")
    }
    tls.ticketStore = name
  }

  func versions(_ directive: Directive?) -> TLSVersions {
    guard let directive else { return .standard }
    return directive.arguments.reduce(into: TLSVersions()) { versions, word in
      switch word.text.lowercased() {
      case "tlsv1": versions.insert(.tls10)
      case "tlsv1.1": versions.insert(.tls11)
      case "tlsv1.2": versions.insert(.tls12)
      default: versions.insert(.tls13)
      }
    }
  }

  func confCommands(_ lines: [Directive]) -> [ConfCommand] {
    lines.map { ConfCommand(name: $0.text(0), value: $0.text(1), location: $0.location) }
  }

  /// Builds the session cache. `shared` overrides `builtin`, because sallyport has one store for all workers.
  private mutating func revokedConnections(_ directive: Directive?) -> RevokedConnections {
    guard let directive else { return .close }
    switch (directive.text(0), directive.arguments.count) {
    case ("close", 1): return .close
    case ("drain", 1): return .drain(RevokedConnections.standardDrain)
    case ("drain", _):
      if let time = Quantity.milliseconds(directive.text(1)), time > 0 { return .drain(time) }
      error(
        directive.place(1), "invalid time \"\(directive.text(1))\" in \"ssl_revoked_connections\" directive",
        hint: "a time above zero, such as 5s; without one it is 5s")
    default:
      error(
        directive.place(directive.arguments.count - 1), "invalid value in \"ssl_revoked_connections\" directive",
        hint: "close, drain, or drain with a time, such as drain 5s")
    }
    return .close
  }

  private mutating func sessionCache(_ directive: Directive?) -> SessionCacheSettings {
    guard let directive else { return .none }
    var result = SessionCacheSettings.none
    for word in directive.arguments {
      let parts = word.text.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
      switch (parts[0], parts.count) {
      case ("off", 1) where directive.arguments.count == 1: return .off
      case ("none", 1) where directive.arguments.count == 1: return .none
      case ("builtin", 1): if case .none = result { result = .builtin(sessions: 20480) }
      case ("builtin", 2):
        guard let sessions = Quantity.number(parts[1]), (1...10_000_000).contains(sessions) else { fallthrough }
        if case .none = result { result = .builtin(sessions: sessions) }
      case ("shared", 3):
        guard !parts[1].isEmpty, let bytes = parts.last.flatMap({ Quantity.size($0) }),
          (32768...(1 << 36)).contains(bytes)
        else {
          error(
            word.location, "invalid session cache \"\(word.text)\"",
            hint: "shared:NAME:SIZE, SIZE at least 32k: shared:tls:10m")
          return .none
        }
        result = .shared(name: parts[1], bytes: bytes)
      default:
        error(
          word.location, "invalid session cache \"\(word.text)\"",
          hint: "off, none, builtin[:SESSIONS] or shared:NAME:SIZE")
        return .none
      }
    }
    return result
  }
}

extension Scope {
  /// `ssl_reload`: whether changed files are taken up without a signal, those of other features too.
  var reloadsFiles: Bool { flag("ssl_reload") ?? true }
  /// `ssl_password_file`, which also opens the keys of a local authority.
  var passwordFile: Directive? { value("ssl_password_file") }
}

extension SettingsBuilder {
  /// Whether the server has `ssl on;`, which nginx dropped in 1.25. Every `listen` of the server then uses TLS.
  mutating func isObsoleteTLS(_ scope: Scope) -> Bool {
    guard let line = scope.value("ssl") else { return false }
    warning(line.location, "the \"ssl\" directive is obsolete", hint: "write \"listen … ssl\" instead")
    return Flag(line.text(0)) ?? false
  }
}

extension Scope {
  /// `ssl on;`
  var isObsoletelyEncrypted: Bool { flag("ssl") == true }
}

extension Scope {
  /// Whether no client comes in without a certificate that verifies.
  var demandsCertificate: Bool { text("ssl_verify_client") == "on" }

  /// The keys of the certificates that a server presents, as the configuration names them.
  var presentedKeys: [String] { list("ssl_certificate_key").flatMap(\.arguments).map(\.text) }
}
