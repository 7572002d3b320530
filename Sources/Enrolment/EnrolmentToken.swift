import Bytes
package import Crypto
import Glibc

/// 256 random bits that a device presents in place of the user's password to renew its certificate. Only their hash is
/// kept.
package struct EnrolmentToken: Sendable {
  /// base64url (RFC 4648 §5), unpadded.
  let text: String

  /// Returns nil when the system gives no random bytes.
  init?() {
    guard let bytes = SystemRandom.bytes(32) else { return nil }
    text = String(
      Base64.encode(bytes).filter { $0 != "=" }.map { $0 == "+" ? "-" : $0 == "/" ? "_" : $0 })
  }

  /// The name of the file that holds the serial of the token's certificate. It does not reveal the token.
  var record: String { Self.record(Array(text.utf8)) }

  static func record(_ text: [UInt8]) -> String { "tokens/\(Hex.encode(Digest.of(text)))" }
}

extension AuthorityStore {
  /// Returns the certificate that was issued with a token, unless it is revoked or expired.
  func holder(of token: SecretBytes, at now: Int64) throws(AuthorityError) -> Certificate? {
    let record = token.withUnsafeBytes { EnrolmentToken.record(Array($0)) }
    guard let bytes = try folder.read(record) else { return nil }
    let serial = String(decoding: bytes.prefix { $0 != 0x0A }, as: UTF8.self)
    guard let entry = try known.entry(serial, in: self), entry.state == .valid, entry.notAfter > now else { return nil }
    return certificate(serial)
  }

  /// Renews the CRL if it is due, and then returns its expiry. Removes the records of tokens whose certificate is
  /// expired or revoked.
  package func keepUp(signer: CertifiedKey, at now: Int64) throws(AuthorityError) -> Int64? {
    let before = try AuthorityReading.list(self)?.nextUpdate
    try change(signer) { (index) throws(AuthorityError) in
      for name in try folder.names(in: "tokens") where !name.hasPrefix(".") {
        let record = "tokens/\(name)"
        guard let bytes = try folder.read(record) else { continue }
        let entry = index[serial: String(decoding: bytes.prefix { $0 != 0x0A }, as: UTF8.self)]
        if entry?.state != .valid || (entry?.notAfter ?? 0) <= now { try folder.remove(record) }
      }
    }
    let after = try AuthorityReading.list(self)?.nextUpdate
    return after == before ? nil : after
  }

  /// Registers a certificate with its token. `isWanted` gets the valid certificates of this name, under the lock. If it
  /// returns false, nothing is written.
  func register(
    _ issued: Certificate, of name: CommonName, signer: CertifiedKey, token: EnrolmentToken, at now: Int64,
    if isWanted: ([HeldCertificate]) -> Bool
  ) throws(AuthorityError) -> Bool {
    if mkdir(folder.file("tokens"), 0o700) != 0 && errno != EEXIST { throw .system("mkdir", folder.file("tokens")) }
    let record = (token.record, SecretBytes(Array("\(issued.serial)\n".utf8)))
    return try register(issued, signer: signer, and: [record]) { () throws(AuthorityError) in
      isWanted(try known.held(by: name, in: self, at: now))
    }
  }
}
