import Bytes
public import Crypto
public import Observability

/// The key that an account signs by (`account_key`).
public enum AccountKeySource: Sendable, Hashable {
  /// Made at the first use, and kept in the state folder.
  case generated(ACMEKeyKind)
  case file(MaterialReference)
}

/// A kind of key, in nginx's words: `ecdsa:256`, `rsa:2048`.
public enum ACMEKeyKind: String, Sendable, Hashable, CaseIterable {
  case ecdsa256 = "ecdsa:256"
  case ecdsa384 = "ecdsa:384"
  case ecdsa521 = "ecdsa:521"
  case rsa2048 = "rsa:2048"
  case rsa3072 = "rsa:3072"
  case rsa4096 = "rsa:4096"
  case ed25519

  package var kind: PrivateKey.Kind {
    switch self {
    case .ecdsa256: .p256
    case .ecdsa384: .p384
    case .ecdsa521: .p521
    case .rsa2048: .rsa(bits: 2048)
    case .rsa3072: .rsa(bits: 3072)
    case .rsa4096: .rsa(bits: 4096)
    case .ed25519: .ed25519
    }
  }

  /// Reads `ALGORITHM[:SIZE]`; nil for another text.
  public init?(_ text: String) {
    switch text.lowercased() {
    case "ecdsa": self = .ecdsa256
    case "rsa": self = .rsa2048
    case let word:
      guard let kind = ACMEKeyKind(rawValue: word) else { return nil }
      self = kind
    }
  }
}

/// How challenges are answered.
public enum ChallengeSettings: Sendable, Hashable {
  case http01, tlsALPN01
  /// The program that sets and removes TXT records.
  case dns01(program: String)

  package var method: ChallengeMethod {
    switch self {
    case .http01: .http01
    case .tlsALPN01: .tlsALPN01
    case .dns01: .dns01
    }
  }
}

/// One `acme_issuer`: a CA that issues by ACME, and the account there. It names files and holds no contents.
public struct ACMEIssuerSettings: Sendable, Hashable {
  public var name: String
  package var directory: ACMEURL
  public var accountKey = AccountKeySource.generated(.ecdsa256)
  public var challenge = ChallengeSettings.http01
  /// URLs.
  public var contacts: [String] = []
  public var externalAccount: ExternalAccountSettings?
  /// Empty: the server's first chain.
  public var preferredChain = ""
  public var profile: ProfileSettings?
  /// nil: the system's anchors.
  public var trustedCertificate: MaterialReference?
  /// Whether the server's certificate is verified (`ssl_verify`).
  public var verifiesServer = true
  /// The folder of the account, the keys and the certificates.
  public var stateFolder: String
  public var acceptsTerms = false
  @NotCompared public var location: SourceLocation?

  package init(name: String, directory: ACMEURL, stateFolder: String) {
    self.name = name
    self.directory = directory
    self.stateFolder = stateFolder
  }

  /// The files that it names.
  package var material: [MaterialReference] {
    var files = [trustedCertificate, externalAccount?.key].compactMap { $0 }
    if case .file(let key) = accountKey { files.append(key) }
    return files
  }
}

/// `external_account_key`
public struct ExternalAccountSettings: Sendable, Hashable {
  public var identifier: String
  public var key: MaterialReference
  public init(identifier: String, key: MaterialReference) {
    self.identifier = identifier
    self.key = key
  }
}

/// `profile`
public struct ProfileSettings: Sendable, Hashable {
  public var name: String
  public var isRequired: Bool
  public init(name: String, isRequired: Bool) {
    self.name = name
    self.isRequired = isRequired
  }
}

/// One `acme_certificate`: equal settings share a certificate, wherever they are written.
public struct ACMECertificateSettings: Sendable, Hashable, CustomStringConvertible {
  public var issuer: ACMEIssuerSettings
  package var names: [ACMEIdentifier]
  public var key: ACMEKeyKind
  @NotCompared public var location: SourceLocation?

  package init(issuer: ACMEIssuerSettings, names: [ACMEIdentifier], key: ACMEKeyKind, location: SourceLocation?) {
    self.issuer = issuer
    self.names = names
    self.key = key
    self.location = location
  }

  /// The name of its files: the first identifier, and digits that tell it from others with the same one.
  public var fileName: String {
    let text = names.map(\.description).joined(separator: " ") + " " + key.rawValue
    let digits = Digest.of(Array(text.utf8)).prefix(4)
    let first = String((names.first?.description ?? "").map { $0 == "*" || $0 == ":" ? "_" : $0 })
    return first + "-" + Hex.encode(Array(digits))
  }

  /// The file with key and chain.
  public var path: String { "\(issuer.stateFolder)/\(fileName).pem" }

  /// For messages.
  public var description: String { names.map(\.description).joined(separator: ", ") }
}
