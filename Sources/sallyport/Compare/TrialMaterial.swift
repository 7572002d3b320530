import Bytes
import Conversion
import Crypto
import Glibc

/// Certificates of CAs that live as long as a comparison, in place of those that a configuration names.
final class TrialMaterial {
  private let standIns: StandIns
  private var authorities: [Int: CertifiedKey] = [:]
  private var listed: [Int: CertifiedKey] = [:]
  private var clients: [Shown: CertifiedKey] = [:]
  private let stranger: CertifiedKey
  private let own: CertifiedKey
  /// All servers behind have this key, so that one pin fits each gap.
  private let key: PrivateKey
  private static let day: Int64 = 86_400

  init(_ standIns: StandIns) throws {
    self.standIns = standIns
    key = try .generate()
    stranger = try Self.authority("a CA that nobody names")
    own = try Self.authority("the CA of servers")
    for (index, file) in standIns.files.enumerated() where file.kind == .authorities {
      let authority = try Self.authority("stand-in for \(file.path.suffix(40))")
      authorities[index] = authority
      listed[index] = try CertificateBuilder(
        commonName: "listed", .leaf([.serverAuth, .clientAuth]), names: [.dns("listed.invalid"), Self.loopback]
      ).signed(by: authority, key: key)
    }
  }

  private static let loopback = CertificateBuilder.AlternativeName.ip("127.0.0.1")

  private static func authority(_ name: String) throws -> CertifiedKey {
    try CertificateBuilder(commonName: name, .authority(pathLength: 1), days: 30).selfSigned(key: .generate())
  }

  var pin: String { Pin.spelling(publicKeyDigest: key.spkiSHA256) }

  // MARK: Files

  /// Writes the files that stand in for those of the configuration.
  func write(serverNames: [String]) throws {
    for (index, file) in standIns.files.enumerated() {
      let path = standIns.path(index)
      switch file.kind {
      case .certificate:
        let names = (["localhost"] + serverNames).map { CertificateBuilder.AlternativeName.dns($0) } + [Self.loopback]
        let pair = try CertificateBuilder(
          commonName: "stand-in", .leaf([.serverAuth, .clientAuth]), names: names
        ).signed(by: own, key: .generate())
        try Self.write(pair, to: path)
      case .authorities:
        let list = standIns.listing.contains(index) ? listed[index]?.certificate.pem ?? "" : ""
        try NewFile.replace(
          path, SecretBytes(Array(((authorities[index]?.certificate.pem ?? "") + list).utf8)), mode: 0o600)
      case .revocations(let authority):
        guard let issuer = authorities[authority] else { continue }
        let revoked = try client(.revoked(authorities: authority))?.certificate
        let list = try RevocationListBuilder(revoking: [revoked].compactMap { $0 }).pem(signedBy: issuer)
        try NewFile.replace(path, SecretBytes(Array(list.utf8)), mode: 0o600)
      case .text(let text): try NewFile.replace(path, SecretBytes(Array(text.utf8)), mode: 0o600)
      }
    }
  }

  private static func write(_ pair: CertifiedKey, to path: String) throws {
    let text = ([pair.certificate] + pair.chain).map(\.pem).joined()
    let key = try pair.key.pem.withUnsafeBytes { Array($0) }
    try NewFile.replace(path, SecretBytes(Array(text.utf8) + key), mode: 0o600)
  }

  func path(target: Int, _ guise: TargetGuise) -> String { "\(standIns.place.folder)/target-\(target)-\(guise)" }

  /// Writes the certificates of the servers behind.
  func writeTargets() throws {
    for (index, target) in standIns.targets.enumerated() {
      guard let handshake = target.handshake else { continue }
      for guise in TargetGuise.allCases {
        // Both programs connect to a stand-in's address, and some expect it in place of a name.
        let names = guise == .otherName ? ["other.invalid"] : handshake.names + ["127.0.0.1"]
        let builder = CertificateBuilder(
          commonName: names.first ?? "stand-in", .leaf([.serverAuth]), names: names.map { Self.name($0) })
        let issuer = guise == .stranger ? stranger : handshake.authorities.flatMap { authorities[$0] } ?? own
        var pair = try builder.signed(by: issuer, key: guise == .right ? key : .generate())
        if guise == .right, handshake.isListed, let listed = handshake.authorities.flatMap({ listed[$0] }) {
          pair = listed
        }
        try Self.write(pair, to: path(target: index, guise))
      }
    }
  }

  private static func name(_ text: String) -> CertificateBuilder.AlternativeName {
    let isAddress = text.contains(":") || text.utf8.allSatisfy { $0 &- 48 < 10 || $0 == UInt8(ascii: ".") }
    return isAddress ? .ip(text) : .dns(text)
  }

  // MARK: Clients

  /// nil: the client shows none.
  func client(_ shown: Shown) throws -> CertifiedKey? {
    if let made = clients[shown] { return made }
    var builder = CertificateBuilder(commonName: "trial client", .leaf([.clientAuth]), days: 30)
    let issuer: CertifiedKey?
    switch shown {
    case .none: return nil
    case .listed(let file): return listed[file]
    case .valid(let file, let conditions):
      issuer = authorities[file]
      Self.add(conditions, to: &builder)
    case .stranger(let conditions):
      issuer = stranger
      Self.add(conditions, to: &builder)
    case .revoked(let file): issuer = authorities[file]
    case .expired(let file):
      issuer = authorities[file]
      builder.notBefore -= 30 * Self.day
      builder.notAfter = builder.notBefore + 29 * Self.day
    case .wrongPurpose(let file):
      issuer = authorities[file]
      builder.purpose = .leaf([.serverAuth])
    }
    guard let issuer else { return nil }
    let made = try builder.signed(by: issuer, key: .generate())
    clients[shown] = made
    return made
  }

  /// What a rule wants of a certificate.
  private static func add(_ conditions: [String], to builder: inout CertificateBuilder) {
    for condition in conditions {
      let parts = condition.split(separator: "=", maxSplits: 1).map(String.init)
      guard parts.count == 2 else { continue }
      switch parts[0] {
      case "cn": builder.subject = builder.subject.filter { $0.type != .commonName } + [(.commonName, parts[1])]
      case "o": builder.subject.append((.organization, parts[1]))
      case "ou": builder.subject.append((.organizationalUnit, parts[1]))
      case "dns": builder.alternativeNames.append(.dns(parts[1]))
      case "email": builder.alternativeNames.append(.email(parts[1]))
      case "uri": builder.alternativeNames.append(.uri(parts[1]))
      case "ip": builder.alternativeNames.append(.ip(parts[1]))
      default: break
      }
    }
  }
}
