import Bytes
import Crypto
import Forward
import HTTP
package import Identity
package import Language
import Observability
import TLS
package import Traffic

/// real_client_cert_from and real_client_cert_header, which nginx does not have: whose word about a client's certificate is
/// taken. A front that ends TLS, such as a load balancer, sends the certificate of its client in a field.
///
/// The folder is the whole feature: the directives and what they set here, what contradicts them in `RealClientCertRule`,
/// and what happens to a request in `CertificateSearch`. It belongs to a server block: whose certificates count there is
/// decided before any location is known.
package struct RealClientCert: LocationFeature {
  /// A front by its address: that of the connection's peer, whatever `set_real_ip_from` says.
  struct Address: Sendable, Hashable {
    let source: AccessRule.Source
    let location: SourceLocation
  }

  let addresses: [Address]
  /// Fronts by their own certificates; nil: none.
  let selectors: ClientRules?
  package let field: CertificateField

  // MARK: Directives

  package static let chapter = Chapter.tls
  private static let levels: DirectiveContexts = [.http, .server]

  static let fromLine = DirectiveEntry.list(
    "real_client_cert_from", levels, .words(1...Int.max, "ADDRESS | CIDR | unix: | KEY=PATTERN …"), "",
    "Fronts that end TLS, whose word about a client's certificate is taken: by the address of the connection, or by conditions as in ssl_client_allow that the front's own certificate matches. What such a front sends in real_client_cert_header is judged as the client's certificate. In requests of others, that field is removed.",
    example: "real_client_cert_from 10.0.0.0/8;", trust: .told)
  static let headerLine = DirectiveEntry.value(
    "real_client_cert_header", levels, .words(2...2, "FIELD rfc9440 | xfcc | pem | der"), "",
    "The field with the client's certificate: byte sequences (RFC 9440, with FIELD-Chain beside it), Envoy's X-Forwarded-Client-Cert, percent-encoded PEM, or Base64 of DER. Upstreams never get the field as it came.",
    example: "real_client_cert_header Client-Cert rfc9440;", trust: .told)

  package static let directives = [fromLine, headerLine]

  /// The subject of the front's own certificate, if that has verified.
  package static let variables = [
    FeatureVariable(
      "ssl_front_s_dn",
      "The subject of the front's own certificate, if it has verified, where `$ssl_client_s_dn` is that of the client behind it.",
      isOursAlone: true
    ) { exchange, output in
      guard let relayed = exchange.facts.relayed, relayed.source != .stranger,
        let chain = exchange.session.facts.verifiedChain
      else { return }
      output.append(string: chain.leaf.subject.rfc2253)
    }
  ]

  package static func read(_ level: Level, _ builder: inout SettingsBuilder) -> RealClientCert? {
    // The lines of a server are read once, and its locations have nothing of them.
    guard case .server = level else { return nil }
    return read(level.scope, &builder)
  }

  /// The settings in effect in a server block; nil: no front's word is taken there.
  static func read(_ scope: Scope, _ builder: inout SettingsBuilder) -> RealClientCert? {
    let lines = fromLine.lines(in: scope)
    guard let field = field(headerLine.line(in: scope), &builder), !lines.isEmpty else { return nil }
    var addresses: [Address] = []
    var rules: [ClientRule] = []
    for line in lines {
      if line.arguments.contains(where: { $0.text.contains("=") }) {
        let words = line.arguments.map { (text: $0.text, location: $0.location) }
        let (rule, faults) = ClientRule.parse(.allow, words, at: line.location, named: fromLine.name)
        builder.diagnostics += faults
        if let rule { rules.append(rule) }
        continue
      }
      for word in line.arguments {
        if let address = address(word, &builder) { addresses.append(address) }
      }
    }
    return RealClientCert(
      addresses: addresses, selectors: ClientRules(allow: rules, deny: []), field: field)
  }

  package static func read(_ block: inout ServerBlock, _ builder: inout SettingsBuilder) {
    guard !block.isTLS, block.takesRelayedClients else { return }
    block.relayedPolicy = block.linesOfTLS.map { policy(of: $0) }
  }

  package static func judge(_ block: ServerBlock, _ builder: inout SettingsBuilder) {
    guard block.kind == .http else { return }
    builder.diagnostics += RealClientCertRule.allCases.compactMap { $0.diagnostic(block.root[Self.self], block) }
  }

  package var relaysClients: Bool { true }

  private static func address(_ word: Word, _ builder: inout SettingsBuilder) -> Address? {
    if word.text == "unix:" { return Address(source: .unix, location: word.location) }
    guard let (source, hasHostBits) = AccessRule.Source.parse(word.text) else {
      builder.error(
        word.location, "invalid parameter \"\(word.text)\" in \"\(fromLine.name)\"",
        hint: "an IP address, ADDRESS/BITS, unix:, or conditions on the front's certificate, as dns=lb.example")
      return nil
    }
    if hasHostBits {
      builder.warning(
        word.location, "low address bits of \"\(word.text)\" are meaningless", hint: "write the network's address")
    }
    return Address(source: source, location: word.location)
  }

  private static func field(_ line: Directive?, _ builder: inout SettingsBuilder) -> CertificateField? {
    guard let line else { return nil }
    guard let format = CertificateField.Format(rawValue: line.text(1).lowercased()) else {
      builder.error(
        line.place(1), "unknown format \"\(line.text(1))\" in \"\(headerLine.name)\"",
        hint: "one of \(CertificateField.Format.allCases.map(\.rawValue).joined(separator: ", "))")
      return nil
    }
    let field = CertificateField(name: line.text(0), format: format)
    let isOwn = [field.name, field.chainName].compactMap { $0 }.allSatisfy { name in
      Array(name.utf8).withUnsafeBytes { FieldName.folded($0) == .other }
    }
    guard isOwn, isToken(field.name) else {
      builder.error(
        line.place(0), "\"\(field.name)\" can't be the field of \"\(headerLine.name)\"",
        hint: "the name of a field that has no other meaning, such as Client-Cert: letters, digits and \"-\"")
      return nil
    }
    return field
  }

  /// A name in which no character stands for another.
  private static func isToken(_ name: String) -> Bool {
    !name.isEmpty && name.utf8.count <= 128
      && name.utf8.allSatisfy { ASCII.lower($0) &- 0x61 < 26 || ASCII.isDigit($0) || $0 == 0x2D }
  }

  /// The names of the fields, which clients' requests never bring to an upstream.
  package var removedFields: [[UInt8]] { [field.name, field.chainName].compactMap { $0.map { Array($0.utf8) } } }

  /// Whose word is taken, as `check` says it.
  private var believed: [String] {
    addresses.map(\.source.asWritten) + (selectors?.allow ?? []).map(\.spelling)
  }

  /// The settings by which a server block without TLS judges clients: those about clients, and nothing that it would show
  /// in a handshake.
  private static func policy(of tls: ServerTLSSettings) -> ServerTLSSettings {
    var policy = ServerTLSSettings()
    policy.passwordFile = tls.passwordFile
    policy.clientCertificate = tls.clientCertificate
    policy.trustedCertificate = tls.trustedCertificate
    policy.revocationLists = tls.revocationLists
    policy.verification = tls.verification
    policy.rejection = tls.rejection
    policy.revokedConnections = tls.revokedConnections
    policy.rules = tls.rules
    policy.verifyDepth = tls.verifyDepth
    policy.versions = tls.versions
    policy.ciphers = tls.ciphers
    policy.clientStatus = tls.clientStatus
    policy.reloads = tls.reloads
    policy.sessionCache = .off
    return policy
  }

  package var ways: LocationWays {
    var ways = LocationWays()
    ways.certificatesSaidBy = believed
    ways.fronts = RelayingFronts(at: addresses.compactMap(\.source.first)) { [field] in field.lines(relaying: $0) }
    return ways
  }

  package func clientPolicy(of server: ServerSettings) -> [(label: String, text: String)] {
    let lines = [
      ("fronts", "\(believed.joined(separator: ", ")) (\(Self.fromLine.name))"),
      ("", "they send the client's certificate in \(field.name) (\(field.format.rawValue)), judged as above;"),
      ("", "the front, and NOT sallyport, has seen the proof of its key"),
    ]
    return lines + (server.tls == nil ? [("", "others are clients without a certificate")] : [])
  }

  // MARK: Effect

  /// Counts before any phase: `LiveServer.relayedClientStep`.
  package func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    if parts.isOfServer { parts.server.relayedClientStep = CertificateSearch(self, makers.trace) }
  }

  package static func compare(_ old: Self?, _ new: Self?, _ names: ComparedNames, _ found: inout TrustChanges) {
    found.set(Set(old?.believed ?? []), Set(new?.believed ?? [])) {
      "\($0) may say which certificate a client has (real_client_cert_from)"
    } removed: {
      "\($0) may no longer say which certificate a client has"
    }
    if let old, let new, old.field != new.field {
      found.other(
        "the field \(new.field.name) (\(new.field.format.rawValue)) has a client's certificate (was \(old.field.name), \(old.field.format.rawValue))"
      )
    }
  }
}
