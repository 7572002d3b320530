import Bytes
import Crypto
import Language
import Observability
import SPIFFE
import Transport

/// A client of a policy file: what its certificate says, as far as the file says it.
package struct AccessClient: Sendable {
  enum Issuer: Sendable, Hashable {
    case nobody, stranger, trusted
    /// A CA of the configuration, by its file or its subject.
    case named(String)
    /// By the spelling of the pin.
    case pinned(String)
    /// A file with the certificate itself.
    case file(MaterialReference)
  }

  /// Its names, serial number, fault and fields. The issuer is known only in a world.
  private var persona: Persona
  var issuer: Issuer
  /// Whether the file says a name of it: else it is any client of its issuer.
  private(set) var hasName = false
  var address: SocketAddress?

  static let nobody = AccessClient(persona: .nobody, issuer: .nobody)
  static let stranger = AccessClient(persona: .stranger, issuer: .stranger)

  var hasCertificate: Bool { issuer != .nobody }

  /// The trust domains of SPIFFE that the file says the client is of.
  var trustDomains: [TrustDomain] {
    let named =
      if case .named(let name) = issuer { try? SPIFFEID(parsing: name).trustDomain } else { TrustDomain?.none }
    return [persona.workload?.trustDomain, named].compactMap { $0 }
  }

  /// The client in a world. Returns why there is none.
  func resolved(in world: TrialWorld) -> Result<Persona, AccessFault> {
    var persona = persona
    switch issuer {
    case .nobody: persona.issuer = .nobody
    case .stranger: persona.issuer = .stranger
    case .trusted: persona.issuer = .trusted
    case .named(let name):
      guard let index = world.authorities(named: name).first else {
        let known = Set(world.authorities.map(\.file)).sorted().joined(separator: ", ")
        return .failure(
          AccessFault(
            "the configuration trusts no CA \"\(name)\" for clients" + (known.isEmpty ? "" : "; it names \(known)")))
      }
      persona.issuer = .authority(index)
    case .pinned(let spelling):
      guard let index = world.pins.firstIndex(where: { $0 == spelling }) else {
        return .failure(AccessFault("the configuration doesn't pin \"\(spelling)\" for clients"))
      }
      persona.issuer = .pin(index)
    case .file(let reference):
      do throws(MaterialError) { persona.issuer = .file(try Certificate.loadAll(reference)) } catch {
        return .failure(AccessFault(error.message))
      }
    }
    return .success(persona)
  }

  /// Whether it is a name and a value on one line.
  static func isField(_ text: String) -> Bool {
    guard let colon = text.firstIndex(of: ":"), colon != text.startIndex else { return false }
    return !text.contains(where: \.isNewline)
  }

  // MARK: Reading

  static let rows: [DirectiveEntry] = [
    .local("cn", [], .words(1...1, "NAME"), "The common name of its subject."),
    .local("o", [], .words(1...1, "NAME"), "The organization of its subject."),
    .local("ou", [], .words(1...1, "NAME"), "The organizational unit of its subject."),
    .local("subject", [], .words(1...1, "DN"), "Its subject, as $ssl_client_s_dn has it: CN=boss,O=Example."),
    .local("dns", [], .words(1...Int.max, "NAME …"), "DNS names of its subjectAltName."),
    .local("email", [], .words(1...Int.max, "ADDRESS …"), "Addresses of mail of its subjectAltName."),
    .local("uri", [], .words(1...Int.max, "URI …"), "URIs of its subjectAltName."),
    .local("ip", [], .words(1...Int.max, "ADDRESS …"), "IP addresses of its subjectAltName."),
    .local(
      "spiffe", [], .words(1...1, "ID"),
      "It is a workload with this SPIFFE ID, whose certificate the CA of the ID's trust domain has issued."),
    .local("serial", [], .words(1...1, "HEX"), "Its serial number, as $ssl_client_serial has it."),
    .local(
      "issuer", [], .words(1...1, "FILE | DN"),
      "The CA that has issued it, by the file that the configuration names, or by its subject. Without this line: the first one that the server block trusts."
    ),
    .local("ca", [], .words(1...1, "none | FILE | DN"), "The same; none: a CA that the configuration doesn't know."),
    .local("pin", [], .words(1...1, "PIN"), "It has what the configuration pins with these words."),
    .local("certificate", [], .words(1...1, "FILE"), "The file of its certificate, which the CAs themselves judge."),
    .local("fault", [], .oneOf(Persona.Fault.allCases.map(\.rawValue)), "What is wrong with it."),
    .local("user", [], .words(1...1, "NAME"), "It gives this name and a password."),
    .local("header", [], .words(1...1, "\"NAME: VALUE\""), "A field of each of its requests.", repeatable: true),
    .local("from", [], .words(1...1, "ADDRESS"), "The address that it connects from."),
  ]

  static func read(_ name: String, _ lines: [Directive]) -> (AccessClient, [Diagnostic]) {
    var client = AccessClient(persona: Persona(name), issuer: lines.isEmpty ? .nobody : .trusted)
    if name == "nobody" || name == "stranger", lines.isEmpty { return (name == "nobody" ? .nobody : .stranger, []) }
    var faults: [Diagnostic] = []
    var issuerLine: Directive?
    var isCertified = false
    for line in lines {
      guard let row = rows.first(where: { $0.name == line.name }) else {
        let nearest = Spelling.nearest(to: line.name, among: rows.map(\.name))
        faults.append(
          Diagnostic(
            .error, at: line.location, "unknown statement \"\(line.name)\" of a client",
            hint: nearest.map { "did you mean \"\($0)\"?" } ?? "one of \(rows.map(\.name).joined(separator: ", "))"))
        continue
      }
      guard line.block == nil, row.form.argumentCount.contains(line.arguments.count) else {
        faults.append(
          Diagnostic(
            .error, at: line.location, "\"\(line.name)\" can't be read",
            hint: "expected: \(row.name) \(row.form.usage);"))
        continue
      }
      if !["user", "header", "from"].contains(line.name) { isCertified = true }
      if ["issuer", "ca", "pin", "certificate", "spiffe"].contains(line.name) {
        if let issuerLine {
          faults.append(
            Diagnostic(
              .error, at: line.location,
              "\"\(line.name)\" and \"\(issuerLine.name)\" both say who has issued the certificate",
              hint: "the first is at \(issuerLine.location)"))
        }
        issuerLine = line
      }
      if let fault = client.take(line) { faults.append(Diagnostic(.error, at: line.place(0), fault)) }
    }
    if !isCertified { client.issuer = .nobody }
    client.hasName =
      !client.persona.subject.isEmpty || !client.persona.alternativeNames.isEmpty || client.persona.serial != nil
    if client.persona.subject.isEmpty { client.persona.subject = [NamePart("CN", name)] }
    return (client, faults)
  }

  /// Returns what is wrong with the line.
  private mutating func take(_ line: Directive) -> String? {
    let words = line.arguments.map(\.text), word = line.text(0)
    switch line.name {
    case "cn": persona.subject.insert(NamePart("CN", word), at: 0)
    case "o": persona.subject.append(NamePart("O", word))
    case "ou": persona.subject.append(NamePart("OU", word))
    case "subject":
      guard let parts = NamePart.parse(word) else { return "\"\(word)\" is no name such as CN=boss,O=Example" }
      persona.subject = parts
    case "dns": persona.alternativeNames += words.map { .dns($0) }
    case "email": persona.alternativeNames += words.map { .email($0) }
    case "uri": persona.alternativeNames += words.map { .uri($0) }
    case "ip":
      guard words.allSatisfy({ SocketAddress(literal: $0, port: 0) != nil }) else { return "this is no IP address" }
      persona.alternativeNames += words.map { .ip($0) }
    case "spiffe":
      let id: SPIFFEID
      do throws(SPIFFEIDError) { id = try SPIFFEID(parsing: word) } catch {
        return "\"\(word)\" is no SPIFFE ID such as spiffe://example.org/ns/prod/sa/web: \(error)"
      }
      guard !id.path.isEmpty else { return "\"\(word)\" is the ID of a trust domain, and not of a workload" }
      persona.alternativeNames.append(.uri(word))
      issuer = .named("\(id.trustDomain)")
    case "serial":
      guard !word.isEmpty, word.count <= 40, word.allSatisfy(\.isHexDigit) else {
        return "\"\(word)\" is no serial number"
      }
      persona.serial = word
    case "issuer", "ca": issuer = line.name == "ca" && word == "none" ? .stranger : .named(word)
    case "pin": issuer = .pinned(word)
    case "certificate":
      issuer = .file(
        MaterialReference(path: resolve(word, in: folder(of: line.location.file)), location: line.place(0)))
    case "fault":
      guard let fault = Persona.Fault(rawValue: word) else {
        return "\"\(word)\" is none of \(Persona.Fault.allCases.map(\.rawValue).joined(separator: ", "))"
      }
      persona.fault = fault
    case "user":
      let credentials = Array("\(word):password".utf8)
      persona.fields.append("Authorization: Basic \(Base64.encode(credentials))")
    case "header":
      guard Self.isField(word) else { return "\"\(word)\" is no field, as \"NAME: VALUE\"" }
      persona.fields.append(word)
    default:
      guard let address = SocketAddress(literal: word, port: 40_000) else { return "\"\(word)\" is not an IP address" }
      self.address = address
    }
    return nil
  }
}

/// Why an assertion can't be judged, in words.
struct AccessFault: Error {
  let text: String
  init(_ text: String) { self.text = text }
}
