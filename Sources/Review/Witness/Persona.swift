package import Crypto
import Features
package import Identity
package import SPIFFE
import Traffic

/// A client of a trial: what its certificate says, who has issued it, and what is wrong with it.
package struct Persona: Sendable, Hashable {
  package enum Issuer: Sendable, Hashable {
    /// The client has no certificate.
    case nobody
    /// A CA that no configuration knows.
    case stranger
    /// The first CA that the server block trusts, whichever it is.
    case trusted
    /// A CA of the configuration, by its place in `TrialWorld.authorities`.
    case authority(Int)
    /// What the configuration pins: by its place in `TrialWorld.pins`.
    case pin(Int)
    /// The certificates of a file, leaf first. They are shown to a world without stand-ins.
    case file([Certificate])
  }

  /// What makes a certificate unfit that is sound otherwise.
  package enum Fault: String, Sendable, Hashable, CaseIterable {
    case expired
    case notYetValid = "not_yet_valid"
    /// Each revocation list of its issuer has it.
    case revoked
    /// Its extended key usage is that of servers alone.
    case wrongPurpose = "wrong_purpose"
    /// Its key is one of RSA with 1024 bits.
    case weakKey = "weak_key"
  }

  /// What messages call the client.
  package var name: String
  /// In the order of RFC 2253: the most specific part first.
  package var subject: [NamePart] = []
  package var alternativeNames: [CertificateBuilder.AlternativeName] = []
  package var issuer: Issuer
  package var fault: Fault?
  /// Hexadecimal; nil: a random one.
  package var serial: String?
  /// Fields that the client sends with each request, `Name: value`.
  package var fields: [String] = []

  package init(_ name: String, subject: [NamePart] = [], issuer: Issuer = .trusted, fault: Fault? = nil) {
    self.name = name
    self.subject = subject
    self.issuer = issuer
    self.fault = fault
  }

  /// A client whose certificate a rule describes; nil: none can be made. What the rule says of the issuer is a question of
  /// `issuer`. `domain`: that of the SPIFFE ID that its certificate has; nil: it needs none.
  package init?(of rule: ClientRule, by issuer: Issuer = .trusted, in domain: TrustDomain? = nil) {
    guard let values = domain.map({ rule.witness(in: $0) }) ?? rule.witness() else { return nil }
    self.init("a client", issuer: issuer)
    for (key, value) in values {
      switch key {
      case .cn: subject.insert(NamePart("CN", value), at: 0)
      case .o: subject.append(NamePart("O", value))
      case .ou: subject.append(NamePart("OU", value))
      case .dns: alternativeNames.append(.dns(value))
      case .email: alternativeNames.append(.email(value))
      case .uri: alternativeNames.append(.uri(value))
      case .ip: alternativeNames.append(.ip(value))
      case .serial: serial = value
      case .issuer: continue
      // Nobody but the CA can make them.
      case .fingerprint, .spki: return nil
      }
    }
    if subject.isEmpty { subject = [NamePart("CN", "client")] }
  }

  /// The client without a certificate.
  package static let nobody = Persona("nobody", issuer: .nobody)
  /// A client whose CA nobody knows.
  package static let stranger = Persona("stranger", subject: [NamePart("CN", "stranger")], issuer: .stranger)

  /// The same client with one thing changed, under a name that says it.
  package func but(_ what: String, _ change: (inout Persona) -> Void) -> Persona {
    var other = self
    other.name = "\(name), \(what)"
    change(&other)
    return other
  }

  /// The subject as a configuration writes it.
  package var dn: String { subject.map { "\($0.type)=\($0.value)" }.joined(separator: ",") }

  /// Whether its certificate is at hand, and not minted.
  var isOfFile: Bool { if case .file = issuer { true } else { false } }

  /// The names of its certificate, for people.
  var names: String {
    ([dn].filter { !$0.isEmpty } + alternativeNames.compactMap { $0.statement?.value }).joined(separator: ", ")
  }

  /// As which workload it comes; nil: its certificate has no SPIFFE ID.
  var workload: SPIFFEID? {
    for case .uri(let text) in alternativeNames {
      if let id = try? SPIFFEID(parsing: text) { return id }
    }
    return nil
  }

  /// Whether its certificate says a URI, which an SVID may have only one of.
  var saysURI: Bool { alternativeNames.contains { if case .uri = $0 { true } else { false } } }
}

extension CertificateBuilder.AlternativeName {
  /// How a policy file says the name; nil: it can't.
  var statement: (name: String, value: String)? {
    switch self {
    case .dns(let text): ("dns", text)
    case .uri(let text): ("uri", text)
    case .email(let text): ("email", text)
    case .ip(let text): ("ip", text)
    case .raw: nil
    }
  }
}

extension HTTPSettings {
  /// The rules on clients of all server blocks and locations, each once.
  var clientRules: [ClientRule] {
    var seen: Set<String> = []
    return everyLocation.compactMap(\.settings.clientRules).flatMap { $0.allow + $0.deny }
      .filter { seen.insert($0.spelling).inserted }
  }
}

extension ClientRule {
  /// The SPIFFE ID of a workload that the rule is about; nil: it asks for none, or none is found.
  var workload: SPIFFEID? {
    let values = witness(filling: ["x", "x/x", "spiffe://x/x"]) { key, value in key != .uri || Self.id(value) != nil }
    return values?.first { $0.key == .uri }.flatMap { Self.id($0.value) }
  }

  /// Values of an SVID of a trust domain that the rule matches; nil: none is found.
  fileprivate func witness(in domain: TrustDomain) -> [(key: IdentityKey, value: String)]? {
    let label = domain.name.split(separator: ".").first.map(String.init) ?? domain.name
    return witness(filling: ["x", domain.name, label, "\(domain.name)/x", "\(domain)/x", "x/x"]) { key, value in
      key != .uri || Self.id(value)?.trustDomain == domain
    }
  }

  private static func id(_ text: String) -> SPIFFEID? {
    (try? SPIFFEID(parsing: text)).flatMap { $0.path.isEmpty ? nil : $0 }
  }
}

/// One attribute of a distinguished name.
package struct NamePart: Sendable, Hashable {
  /// OpenSSL's name of the attribute, as `CN`, or numbers with dots.
  package var type: String
  package var value: String

  package init(_ type: String, _ value: String) {
    self.type = type
    self.value = value
  }

  /// Reads a name as RFC 2253 writes it: `CN=boss,O=Example`. Returns nil for what isn't one, and for parts with several
  /// attributes (`+`).
  package static func parse(_ text: String) -> [NamePart]? {
    var parts: [NamePart] = []
    var piece: [Character] = []
    var type: String?
    var isEscaped = false
    func close() -> Bool {
      guard let name = type, !name.isEmpty, !piece.isEmpty else { return false }
      parts.append(NamePart(name, String(piece)))
      piece = []
      type = nil
      return true
    }
    for character in text {
      switch character {
      case _ where isEscaped:
        piece.append(character)
        isEscaped = false
      case "\\": isEscaped = true
      case "=" where type == nil:
        type = String(piece)
        piece = []
      case ",": guard close() else { return nil }
      case "+": return nil
      case " " where type == nil && piece.isEmpty: break
      default: piece.append(character)
      }
    }
    return !isEscaped && close() ? parts : nil
  }
}
