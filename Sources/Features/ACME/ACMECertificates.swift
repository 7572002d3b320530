package import ACME
import Bytes
import Crypto
import Forward
package import Language
import Observability
import TLS
import Traffic

/// Certificates that servers get by themselves (nginx: ngx_http_acme_module).
enum ACMECertificates: Feature {
  static let chapter = Chapter.acme

  /// The words of `ssl_certificate` and `ssl_certificate_key` that stand for what `acme_certificate` gets.
  static let certificateVariable = "$acme_certificate"
  static let keyVariable = "$acme_certificate_key"

  private static let issuerBlock = DirectiveEntry.local(
    "acme_issuer", .http, .block(1...1, "NAME"),
    "A CA that issues certificates by ACME (RFC 8555), and the account there.", repeatable: true,
    example:
      "acme_issuer ca { uri https://acme-v02.api.letsencrypt.org/directory; contact admin@example.com; accept_terms_of_service; }"
  )
  private static let uri = DirectiveEntry.local(
    "uri", .acmeIssuer, .words(1...1, "URL"), "The CA's directory: an https URL. It is required.",
    example: "uri https://acme-v02.api.letsencrypt.org/directory;")
  private static let accountKey = DirectiveEntry.local(
    "account_key", .acmeIssuer,
    .words(1...1, "ecdsa:256 | ecdsa:384 | ecdsa:521 | rsa:2048 | rsa:3072 | rsa:4096 | ed25519 | FILE"),
    "ecdsa:256",
    "The key of the account: one that sallyport makes and keeps in `state_path`, or a file with a private key as PEM.",
    example: "account_key ecdsa:384;", trust: .none)
  private static let challenge = DirectiveEntry.local(
    "challenge", .acmeIssuer, .words(1...2, "http-01 | tls-alpn-01 | dns-01 PROGRAM"), "http-01",
    "How the CA sees that a name is ours: by a request on port 80, by a handshake on port 443, or by a DNS record that PROGRAM sets and removes (`PROGRAM present|cleanup RECORD VALUE`).",
    example: "challenge tls-alpn-01;")
  private static let contact = DirectiveEntry.local(
    "contact", .acmeIssuer, .words(1...1, "URL | ADDRESS"), "An address for the CA: of mail, or a URL.",
    repeatable: true,
    example: "contact admin@example.com;", trust: .none)
  private static let externalAccountKey = DirectiveEntry.local(
    "external_account_key", .acmeIssuer, .words(2...2, "ID MATERIAL"),
    "The id and the file with the key (base64url) by which the CA knows you from elsewhere.",
    example: "external_account_key kid-1 eab.key;", trust: .none)
  private static let preferredChain = DirectiveEntry.local(
    "preferred_chain", .acmeIssuer, .words(1...1, "NAME"),
    "Of several chains, the one whose last certificate was issued by this common name.",
    example: "preferred_chain \"ISRG Root X1\";", trust: .none)
  private static let profile = DirectiveEntry.local(
    "profile", .acmeIssuer, .words(1...2, "NAME [require]"),
    "The CA's profile. With `require`, no certificate is asked for where the CA doesn't have it.",
    example: "profile shortlived require;", trust: .none)
  private static let trustedCertificate = DirectiveEntry.local(
    "ssl_trusted_certificate", .acmeIssuer, .words(1...1, "MATERIAL"), "the system's CAs",
    "The CAs that verify the ACME server.", example: "ssl_trusted_certificate pebble-ca.crt;")
  private static let verify = DirectiveEntry.local(
    "ssl_verify", .acmeIssuer, .flag, "on",
    "Whether the ACME server's certificate is verified. `off` is for tests only.", example: "ssl_verify off;")
  private static let statePath = DirectiveEntry.local(
    "state_path", .acmeIssuer, .words(1...1, "FOLDER"), "/var/lib/sallyport/acme_NAME",
    "The folder of the account, the keys and the certificates. The user that serves must own it.",
    example: "state_path /var/lib/sallyport/acme;", trust: .none)
  private static let acceptsTerms = DirectiveEntry.local(
    "accept_terms_of_service", .acmeIssuer, .none, "Accepts the CA's terms of service.",
    example: "accept_terms_of_service;", trust: .none)
  private static let certificateLine = DirectiveEntry.local(
    "acme_certificate", .server, .words(1...Int.max, "ISSUER [NAME …] [key=KIND]"),
    "A certificate that sallyport gets and renews by itself, for these names and IP addresses, or for those of `server_name`: `$acme_certificate` in `ssl_certificate`. KIND is that of `account_key` (ecdsa:256).",
    example: "acme_certificate ca example.com www.example.com;")

  static let directives: [DirectiveEntry] = [
    issuerBlock, uri, accountKey, challenge, contact, externalAccountKey, preferredChain, profile, trustedCertificate,
    verify, statePath, acceptsTerms, certificateLine,
    .inert("acme_shared_zone", .http, because: "the workers are threads of one process"),
  ]

  static func heldCertificate(at path: String, _ shared: SharedState) -> CertifiedKey? {
    shared[UnkeptCertificates.self].certificate(at: path)?.pair
  }

  static let entryParts: [any EntryPart.Type] = [ChallengeTokens.self]

  static func begin(_ http: Scope, _ builder: inout SettingsBuilder) {
    for line in issuerBlock.lines(in: http) {
      guard let issuer = issuer(line, &builder) else { continue }
      builder[ACMESettings.self].issuers[issuer.name] = issuer
    }
  }

  // MARK: Servers

  /// Adds the certificate that a server is to get by itself, if it has one.
  static func read(_ block: inout ServerBlock, _ builder: inout SettingsBuilder) {
    guard let line = certificateLine.line(in: block.scope), let settings = certificate(line, block.scope, &builder)
    else {
      return
    }
    builder[ACMESettings.self].lines[line.location] = settings
    builder[ACMESettings.self].add(settings)
  }

  private static func certificate(
    _ line: Directive, _ server: Scope, _ builder: inout SettingsBuilder
  ) -> ACMECertificateSettings? {
    guard let issuer = builder[ACMESettings.self].issuers[line.text(0)] else {
      builder.error(
        line.place(0), "there is no acme_issuer \"\(line.text(0))\"",
        hint: "acme_issuer \(line.text(0)) { uri https://…; }, in http")
      return nil
    }
    let before = builder.diagnostics.count
    var key = ACMEKeyKind.ecdsa256
    var words: [Word] = []
    for word in line.arguments.dropFirst() {
      if word.text.hasPrefix("key=") {
        guard let kind = ACMEKeyKind(String(word.text.dropFirst(4))) else {
          builder.error(word.location, "unknown kind of key \"\(word.text)\"", hint: "key=\(kinds)")
          continue
        }
        key = kind
      } else {
        words.append(word)
      }
    }
    if words.isEmpty { words = ServerNames.words(server).filter { $0.text != "" && $0.text != "_" } }
    if words.isEmpty {
      builder.error(
        line.location, "\"acme_certificate\" has no name", hint: "name one, or give the server a server_name")
    }
    var names: [ACMEIdentifier] = []
    for word in words.flatMap(spelledOut) {
      guard let name = name(word, issuer, &builder), !names.contains(name) else { continue }
      names.append(name)
    }
    if names.count > mostNames {
      builder.error(
        line.location, "\"acme_certificate\" has \(names.count) names", hint: "CAs take \(mostNames) at most")
    }
    guard builder.diagnostics.count == before else { return nil }
    return ACMECertificateSettings(issuer: issuer, names: names, key: key, location: line.location)
  }

  private static let mostNames = 100
  private static let kinds = "ecdsa:256, ecdsa:384, ecdsa:521, rsa:2048, rsa:3072 or rsa:4096"

  /// What a word of `server_name` stands for in a certificate. As in nginx, `.example.com` is example.com and
  /// www.example.com, since a wildcard would need dns-01. An IPv6 address may have its brackets.
  private static func spelledOut(_ word: Word) -> [Word] {
    func named(_ text: some StringProtocol) -> Word { Word(String(text), at: word.location, quoted: word.quoted) }
    if word.text.hasPrefix(".") { return [named(word.text.dropFirst()), named("www\(word.text)")] }
    if word.text.hasPrefix("["), word.text.hasSuffix("]") { return [named(word.text.dropFirst().dropLast())] }
    return [word]
  }

  private static func name(
    _ word: Word, _ issuer: ACMEIssuerSettings, _ builder: inout SettingsBuilder
  ) -> ACMEIdentifier? {
    guard let name = ACMEIdentifier(word.text) else {
      builder.error(
        word.location, "\"\(word.text)\" is no name for a certificate",
        hint: "a host name, *.NAME by dns-01, or an IP address")
      return nil
    }
    switch (issuer.challenge, name) {
    case (.http01, _) where name.isWildcard, (.tlsALPN01, _) where name.isWildcard:
      builder.error(
        word.location, "\"\(word.text)\" is not possible by \(issuer.challenge.method.rawValue)",
        hint: "name each host: CAs take a wildcard by dns-01 only")
      return nil
    case (.dns01, .ip):
      builder.error(
        word.location, "\"\(word.text)\" is not possible by dns-01", hint: "challenge http-01, or tls-alpn-01")
      return nil
    case (.http01, _), (.tlsALPN01, _), (.dns01, .dns): return name
    }
  }

  /// The certificate that a pair of `ssl_certificate` lines stands for. nil although it is meant: an error is reported.
  static func certificate(
    _ line: Directive, _ key: Directive?, _ server: Scope, _ builder: inout SettingsBuilder
  ) -> OwnCertificate? {
    let names = (line.text(0) == certificateVariable, key?.text(0) == keyVariable)
    if !names.0, !names.1 { return nil }
    guard names.0, names.1 || key == nil else {
      builder.error(
        (names.0 ? key : line)?.location ?? line.location,
        "\(certificateVariable) and \(keyVariable) belong together",
        hint: "ssl_certificate \(certificateVariable); ssl_certificate_key \(keyVariable);")
      return .faulty
    }
    guard let settings = certificateLine.line(in: server).flatMap({ builder[ACMESettings.self].lines[$0.location] })
    else {
      if certificateLine.line(in: server) == nil {
        builder.error(
          line.place(0), "\(certificateVariable) in a server without \"acme_certificate\"",
          hint: "acme_certificate ISSUER;")
      }
      return .faulty
    }
    if server.reloadsFiles == false {
      builder.error(
        line.location, "\(certificateVariable) beside \"ssl_reload off\": a renewed certificate would not be shown",
        hint: "ssl_reload on;")
    }
    var source = CertificateSource(
      certificate: MaterialReference(path: settings.path, location: line.location), key: nil)
    source.isAwaited = true
    return .source(source)
  }

  // MARK: Issuers

  private static func issuer(_ line: Directive, _ builder: inout SettingsBuilder) -> ACMEIssuerSettings? {
    let name = line.text(0), before = builder.diagnostics.count
    let isName = name.utf8.allSatisfy { ($0 | 0x20) &- 97 < 26 || $0 &- 48 < 10 || $0 == 0x2D || $0 == 0x5F }
    if !isName || !(1...64).contains(name.utf8.count) {
      builder.error(line.place(0), "invalid name \"\(name)\" of an acme_issuer", hint: "letters, digits, - and _")
    }
    if builder[ACMESettings.self].issuers[name] != nil {
      builder.error(line.place(0), "duplicate acme_issuer \"\(name)\"", hint: "use another name")
    }
    let scope = Scope(line.block ?? [], outer: nil)
    let uri = Self.uri.line(in: scope)
    let directory = uri.flatMap { ACMEURL($0.text(0)) }
    if directory == nil {
      builder.error(
        uri?.place(0) ?? line.location,
        uri == nil ? "acme_issuer \"\(name)\" has no \"uri\"" : "\"\(uri?.text(0) ?? "")\" is no https URL",
        hint: "uri https://HOST/directory; with the CA's directory")
    }
    let folder = stateFolder(statePath.line(in: scope), name, &builder)
    guard let directory, let folder else { return nil }
    var issuer = ACMEIssuerSettings(name: name, directory: directory, stateFolder: folder)
    issuer.location = line.location
    issuer.acceptsTerms = acceptsTerms.line(in: scope) != nil
    issuer.accountKey = accountKey(accountKey.line(in: scope), &builder) ?? issuer.accountKey
    issuer.challenge = challenge(challenge.line(in: scope), &builder) ?? issuer.challenge
    issuer.contacts = contact.lines(in: scope).compactMap { contact($0, &builder) }
    issuer.preferredChain = preferredChain.text(in: scope) ?? ""
    issuer.profile = profile(profile.line(in: scope), &builder)
    issuer.trustedCertificate = builder.material(trustedCertificate.line(in: scope))
    issuer.verifiesServer = verify.flag(in: scope) ?? true
    if let key = externalAccountKey.line(in: scope), let file = builder.material(key, at: 1) {
      issuer.externalAccount = ExternalAccountSettings(identifier: key.text(0), key: file)
    }
    if !issuer.verifiesServer {
      builder.warning(
        verify.line(in: scope)?.location ?? line.location,
        "the ACME server is not verified: who stands between can take the account", hint: "ssl_verify on;")
    }
    return builder.diagnostics[before...].contains { $0.severity == .error } ? nil : issuer
  }

  private static func stateFolder(_ line: Directive?, _ name: String, _ builder: inout SettingsBuilder) -> String? {
    guard let line else { return "/var/lib/sallyport/acme_\(name)" }
    let text = line.text(0)
    if text == "off" || text.isEmpty || text.contains("$") {
      builder.error(
        line.place(0), "invalid folder \"\(text)\" in \"state_path\" directive",
        hint: "a folder: without one, each start would ask the CA again, which limits how often it issues")
      return nil
    }
    let path = text.hasPrefix("/") ? text : "\(builder.folder.isEmpty ? "." : builder.folder)/\(text)"
    return path.count > 1 && path.hasSuffix("/") ? String(path.dropLast()) : path
  }

  private static func accountKey(_ line: Directive?, _ builder: inout SettingsBuilder) -> AccountKeySource? {
    guard let line else { return nil }
    if let kind = ACMEKeyKind(line.text(0)) { return .generated(kind) }
    return builder.material(line).map { .file($0) }
  }

  private static func challenge(_ line: Directive?, _ builder: inout SettingsBuilder) -> ChallengeSettings? {
    guard let line else { return nil }
    switch (ChallengeMethod(rawValue: line.text(0).lowercased()), line.arguments.count) {
    case (.http01?, 1): return .http01
    case (.tlsALPN01?, 1): return .tlsALPN01
    case (.dns01?, 2):
      guard line.text(1).hasPrefix("/"), !line.text(1).contains("$") else {
        builder.error(
          line.place(1), "\"\(line.text(1))\" is no program for dns-01", hint: "the absolute path of a program")
        return nil
      }
      return .dns01(program: line.text(1))
    case (.dns01?, _):
      builder.error(
        line.location, "dns-01 needs a program that sets and removes DNS records",
        hint: "challenge dns-01 /usr/local/bin/PROGRAM; sallyport runs PROGRAM present|cleanup RECORD VALUE")
      return nil
    case (.http01?, _), (.tlsALPN01?, _), (nil, _):
      builder.error(
        line.place(0), "invalid challenge \"\(line.text(0))\"", hint: "http-01, tls-alpn-01, or dns-01 PROGRAM")
      return nil
    }
  }

  private static func contact(_ line: Directive, _ builder: inout SettingsBuilder) -> String? {
    let text = line.text(0)
    guard text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }), text.contains("@") || text.contains(":") else {
      builder.error(line.place(0), "\"\(text)\" is no address of mail and no URL", hint: "contact admin@example.com;")
      return nil
    }
    return text.contains(":") ? text : "mailto:\(text)"
  }

  private static func profile(_ line: Directive?, _ builder: inout SettingsBuilder) -> ProfileSettings? {
    guard let line else { return nil }
    if line.arguments.count == 2, line.text(1) != "require" {
      builder.error(line.place(1), "invalid parameter \"\(line.text(1))\"", hint: "profile NAME require; or without")
    }
    return ProfileSettings(name: line.text(0), isRequired: line.arguments.count == 2)
  }
}

/// What `http` and its servers say of certificates that the process gets and renews by itself.
package struct ACMESettings: BlockPart {
  /// By name.
  var issuers: [String: ACMEIssuerSettings] = [:]
  /// By the lines of servers, those without an error.
  var lines: [SourceLocation: ACMECertificateSettings] = [:]
  /// Each once, in the order of the servers.
  package private(set) var certificates: [ACMECertificateSettings] = []
  package init() {}

  mutating func add(_ certificate: ACMECertificateSettings) {
    if !certificates.contains(certificate) { certificates.append(certificate) }
  }
}

extension DirectiveContexts {
  package static let acmeIssuer = DirectiveContexts(block: "acme_issuer", in: .http)
}
