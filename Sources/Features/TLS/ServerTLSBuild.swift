import Crypto
import Forward
import Identity
import Language
import Observability
import TLS
import Traffic

extension ServerTLS {
  static func read(_ block: inout ServerBlock, _ builder: inout SettingsBuilder) {
    guard block.isTLS || block.takesRelayedClients else { return }
    var tls = settings(block.scope, &builder)
    tls.offersHTTP2 = block.http2.isOn
    block.linesOfTLS = tls
  }

  /// Builds a server's TLS settings for clients. Features that say more of clients add it (`Feature.read`).
  private static func settings(_ scope: Scope, _ builder: inout SettingsBuilder) -> ServerTLSSettings {
    var tls = ServerTLSSettings()
    tls.curvesDirective = curves.name
    // A protocol that isn't HTTP has no page for a refusal.
    if builder.kind == .stream { tls.rejection = .handshake }
    rows.read(scope, into: &tls, &builder)
    tls.presented = certificates(scope, &builder)
    (tls.revocationLists, tls.revocationFetch) = revocation(scope, &builder)
    if reportOnly.flag(in: scope) == true { tls.rejection = .reportOnly }
    // As in nginx, the command is applied behind the directive.
    if let tickets = tls.confCommands.compactMap(\.sessionTickets).last { tls.sessionTickets = tickets }
    tls.stapling = stapling(scope, &builder)
    return tls
  }

  /// Pairs keys with certificates: as in nginx, the n-th key belongs to the n-th certificate. Without keys, each
  /// certificate file must contain its own key.
  private static func certificates(_ scope: Scope, _ builder: inout SettingsBuilder) -> [PresentedCertificate] {
    let certificates = Self.certificate.lines(in: scope)
    let keys = certificateKey.lines(in: scope)
    if let diagnostic = ServerTLSRule.keysForCertificates(certificates: certificates, keys: keys) {
      builder.diagnostics.append(diagnostic)
      return []
    }
    return certificates.enumerated().compactMap { index, line in
      let key = index < keys.count ? keys[index] : nil
      if let own = ownCertificate(line, key, scope, &builder) {
        if case .source(let source) = own { return .fixed(source) }
        return nil
      }
      if line.hasVariables || key?.hasVariables ?? false {
        return namedCertificate(line, key, server: ServerNames.primary(scope), &builder).map { .named($0) }
      }
      guard let certificate = builder.material(line) else { return nil }
      return .fixed(CertificateSource(certificate: certificate, key: builder.material(key)))
    }
  }

  /// What a feature has for a certificate that it gets by itself; nil: the lines name none of those.
  private static func ownCertificate(
    _ line: Directive, _ key: Directive?, _ scope: Scope, _ builder: inout SettingsBuilder
  ) -> OwnCertificate? {
    for feature in builder.features.all {
      if let own = feature.certificate(line, key, scope, &builder) { return own }
    }
    return nil
  }

  /// `ssl_session_ticket_key`: files, or a store.
  static func readTicketKeys(_ lines: [Directive], _ tls: inout ServerTLSSettings, _ builder: inout SettingsBuilder) {
    guard let line = lines.first(where: { $0.text(0).hasPrefix("store:") }) else {
      tls.ticketKeys = lines.flatMap { builder.materials($0) }
      return
    }
    let name = String(line.text(0).dropFirst("store:".count))
    guard lines.count == 1 else {
      return builder.error(
        line.location, "\"\(line.name) \(line.text(0))\" beside another line of it",
        hint: "the store has all the keys: leave the others out")
    }
    guard let store = builder[SharedStores.self].stores[name] else {
      return builder.error(
        line.place(0), "\"\(line.name)\" names the store \"\(name)\", which no \"shared_store\" declares",
        hint: "shared_store \(name) rediss://HOST:PORT; in http")
    }
    guard store.isPrivate else {
      return builder.error(
        line.place(0),
        "\"\(line.name)\" of \"\(name)\": the keys would go over the network in clear, and who reads them reads the sessions",
        hint: "shared_store \(name) rediss://…; or a unix socket")
    }
    tls.ticketStore = name
  }

  static func revokedConnections(_ directive: Directive, _ builder: inout SettingsBuilder) -> RevokedConnections {
    switch (directive.text(0), directive.arguments.count) {
    case ("close", 1): return .close
    case ("drain", 1): return .drain(RevokedConnections.standardDrain)
    case ("drain", _):
      if let time = Quantity.milliseconds(directive.text(1)), time > 0 { return .drain(time) }
      builder.error(
        directive.place(1), "invalid time \"\(directive.text(1))\" in \"ssl_revoked_connections\" directive",
        hint: "a time above zero, such as 5s; without one it is 5s")
    default:
      builder.error(
        directive.place(directive.arguments.count - 1), "invalid value in \"ssl_revoked_connections\" directive",
        hint: "close, drain, or drain with a time, such as drain 5s")
    }
    return .close
  }

  static func sessionCache(_ directive: Directive, _ builder: inout SettingsBuilder) -> SessionCacheSettings {
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
          builder.error(
            word.location, "invalid session cache \"\(word.text)\"",
            hint: "shared:NAME:SIZE, SIZE at least 32k: shared:tls:10m")
          return .none
        }
        result = .shared(name: parts[1], bytes: bytes)
      default:
        builder.error(
          word.location, "invalid session cache \"\(word.text)\"",
          hint: "off, none, builtin[:SESSIONS] or shared:NAME:SIZE")
        return .none
      }
    }
    return result
  }
}

extension TLSVersions {
  /// Those that a line names.
  init(_ line: Directive) {
    self = line.arguments.reduce(into: []) { versions, word in
      switch word.text.lowercased() {
      case "tlsv1": versions.insert(.tls10)
      case "tlsv1.1": versions.insert(.tls11)
      case "tlsv1.2": versions.insert(.tls12)
      default: versions.insert(.tls13)
      }
    }
  }
}

extension ConfCommand {
  init(_ line: Directive) { self.init(name: line.text(0), value: line.text(1), location: line.location) }
}

extension Scope {
  /// `ssl_reload`: whether changed files are taken up without a signal, those of other features too.
  var reloadsFiles: Bool { ServerTLS.reload.flag(in: self) ?? true }
  /// `ssl_password_file`, which also opens the keys of a local authority.
  var passwordFile: Directive? { ServerTLS.passwordFile.line(in: self) }
}

extension ServerTLS {
  /// Whether the server has `ssl on;`, which nginx dropped in 1.25. Every `listen` of the server then uses TLS.
  static func encryptsListeners(_ server: Scope, _ builder: inout SettingsBuilder) -> Bool {
    guard let line = obsoleteSwitch.line(in: server) else { return false }
    builder.warning(line.location, "the \"ssl\" directive is obsolete", hint: "write \"listen … ssl\" instead")
    return Flag(line.text(0)) ?? false
  }
}

extension Scope {
  /// `ssl on;`
  var isObsoletelyEncrypted: Bool { ServerTLS.obsoleteSwitch.flag(in: self) == true }

  /// Whether no client comes in without a certificate that verifies.
  var demandsCertificate: Bool { ServerTLS.verification.text(in: self) == "on" }

  /// The keys of the certificates that a server presents, as the configuration names them.
  var presentedKeys: [String] { ServerTLS.certificateKey.lines(in: self).flatMap(\.arguments).map(\.text) }
}
