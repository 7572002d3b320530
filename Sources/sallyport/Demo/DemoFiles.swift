import Bytes
import Crypto
import Glibc

/// The demo's CA, a certificate for each role, and the CA's CRL.
///
/// Files that are still valid are kept. The others are made again under the same CA and, if there is one, with the same
/// key, so that pins and trust stay the same.
struct DemoFiles: Sendable {
  let folder: DemoFolder
  let names: [DemoName]

  static let password = "demo"
  /// A certificate with fewer days left is renewed.
  static let daysLeft: Int64 = 7
  private static let listDays: Int64 = 30

  init(in folder: DemoFolder, names: [DemoName]) {
    self.folder = folder
    self.names = names.reduce(into: DemoName.standard) { if !$0.contains($1) { $0.append($1) } }
  }

  /// The pin of a server's key. Call this after the files are made.
  func pin(of role: DemoRole) throws(DemoFailure) -> String {
    guard let pair = folder.pair(role.rawValue) else {
      throw DemoFailure(text: "\(folder.file("\(role.rawValue).key")) does not exist any more: start the demo again")
    }
    return Pin.spelling(publicKeyDigest: pair.key.spkiSHA256)
  }

  /// Makes the files that are missing, damaged, from another CA or about to expire, and returns their names. The
  /// running daemon reloads them by itself.
  func refresh() throws(DemoFailure) -> [String] {
    let authority = try DemoAuthority(in: folder, names: names)
    var made = authority.isNew ? ["ca"] : []
    for role in DemoRole.allCases where try renew(role, authority.pair) { made.append(role.rawValue) }
    if try renewList(authority.pair) { made.append("ca.crl") }
    if made.contains("ca") || made.contains("client") || !folder.holds(DemoProfile.fileName),
      let client = folder.pair("client")
    {
      try folder.write(
        DemoProfile(authority: authority.pair.certificate, client: try archive(client, "demo client")).text,
        to: DemoProfile.fileName)
    }
    return made
  }

  private func renew(_ role: DemoRole, _ authority: CertifiedKey) throws(DemoFailure) -> Bool {
    let name = role.rawValue
    let kept = folder.pair(name)
    if let kept, role.fits(kept.certificate, authority: authority.certificate, names: names),
      !role.isClient || folder.holds("\(name).p12")
    {
      return false
    }
    let builder = role.builder(names)
    let pair = try DemoFailure.making { () throws(OpenSSLError) -> CertifiedKey in
      var issuer = authority
      if role == .wrongCA {
        issuer = try CertificateBuilder(commonName: "somebody else's CA", .authority(pathLength: 0), days: 3650)
          .selfSigned(key: .generate())
      }
      let key = if let kept { kept.key } else { try PrivateKey.generate() }
      return try builder.signed(by: issuer, key: key)
    }
    try folder.write(try pem(of: pair.key), to: "\(name).key")
    try folder.write(pair.certificate.pem, to: "\(name).crt")
    if role.isClient { try folder.write(try archive(pair, role.commonName), to: "\(name).p12") }
    return true
  }

  private func archive(_ pair: CertifiedKey, _ name: String) throws(DemoFailure) -> SecretBytes {
    try DemoFailure.making { () throws(OpenSSLError) -> SecretBytes in
      try PKCS12.encode(pair, name: name, password: SecretBytes(Array(Self.password.utf8)))
    }
  }

  private func renewList(_ authority: CertifiedKey) throws(DemoFailure) -> Bool {
    guard let revoked = folder.pair(DemoRole.revoked.rawValue)?.certificate else { return false }
    let soon = Int64(time(nil)) + Self.daysLeft * 86_400
    let kept = try? RevocationList.loadAll(MaterialReference(path: folder.file("ca.crl"))).first
    if let kept, let end = kept.nextUpdate, end > soon, kept.revokes(revoked),
      !kept.isDisowned(by: [authority.certificate])
    {
      return false
    }
    // CRL numbers must increase, and so does the time.
    let list = RevocationListBuilder(revoking: [revoked], number: time(nil), days: Self.listDays)
    try folder.write(
      try DemoFailure.making { () throws(OpenSSLError) -> String in try list.pem(signedBy: authority) }, to: "ca.crl")
    return true
  }
}
