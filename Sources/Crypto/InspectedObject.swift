package import Bytes
import COpenSSL

/// One object of a file that `ca inspect` describes.
package enum InspectedObject: Sendable {
  case certificate(Certificate)
  case request(SigningRequest)
  case list(RevocationList)
  case publicKey(PublicKey)
  case privateKey(PrivateKey)
  /// A private key that no given pass phrase opens.
  case sealedKey
  /// A PEM block of another kind, by its label.
  case other(String)

  /// Loads every object of a file in order: PEM with any number of blocks, one DER object, or a PKCS#12, whose key comes
  /// last. At least one. Blocks.
  package static func loadAll(
    _ reference: MaterialReference, passwords: [SecretBytes]
  ) throws(MaterialError) -> [InspectedObject] {
    let bytes = try reference.read(expecting: .inspected)
    return try reference.parsing(.inspected) { () throws(CryptoError) in try all(in: bytes, passwords: passwords) }
  }

  /// Returns every object of a file's content.
  package static func all(
    in bytes: SecretBytes, passwords: [SecretBytes]
  ) throws(CryptoError) -> [InspectedObject] {
    let early: InspectedObject? = bytes.withUnsafeBytes { raw in
      let sequence: UInt8 = 0x30
      guard raw.first == sequence else { return nil }
      defer { OpenSSLError.discard() }
      if let request = try? SigningRequest(der: raw) { return .request(request) }
      return nil
    }
    if let early { return [early] }
    if let list = try list(in: bytes) { return [.list(list)] }
    let contents = try MaterialContents(bytes)
    switch contents {
    case .certificate(let certificate): return [.certificate(certificate)]
    case .publicKey(let key): return [.publicKey(key)]
    case .privateKey(let key): return [.privateKey(key)]
    case .encryptedPrivateKey:
      return [try opened { () throws(CryptoError) in try contents.privateKey(passwords: passwords) }]
    case .pkcs12(let file):
      let opened = try file.withUnsafeBytes { (der) throws(CryptoError) in
        try PKCS12(der: der, passwords: passwords)
      }
      return opened.certificates.map { .certificate($0) } + (opened.key.map { [.privateKey($0)] } ?? [])
    case .pem(let blocks):
      var objects: [InspectedObject] = []
      for block in blocks { objects.append(try object(of: block, passwords)) }
      return objects
    }
  }

  /// Returns the list of a DER file; nil when it is no list. A list that can't be used at all is an error, whose reason
  /// the caller shows.
  private static func list(in bytes: SecretBytes) throws(CryptoError) -> RevocationList? {
    try bytes.withUnsafeBytes { (raw) throws(CryptoError) in
      let sequence: UInt8 = 0x30
      guard raw.first == sequence else { return nil }
      do throws(CryptoError) { return try RevocationList(der: raw) } catch {
        OpenSSLError.discard()
        if case .malformed = error { return nil }
        throw error
      }
    }
  }

  private static func object(of block: PEMBlock, _ passwords: [SecretBytes]) throws(CryptoError) -> InspectedObject {
    if let certificate = try block.certificate() { return .certificate(certificate) }
    if block.holdsPrivateKey {
      return try opened { () throws(CryptoError) in
        try EncryptedKey.privateKey(in: block, passwords: passwords)
      }
    }
    return try block.contents.withUnsafeBytes { (der) throws(CryptoError) in
      if SigningRequest.labels.contains(block.label) { return .request(try SigningRequest(der: der)) }
      if block.label == "X509 CRL" { return .list(try RevocationList(der: der)) }
      if block.holdsPublicKey { return .publicKey(try PublicKey(der: der)) }
      return .other(block.label)
    }
  }

  /// A key without its pass phrase is told as such: the rest of the file may be what the reader wants.
  private static func opened(
    _ open: () throws(CryptoError) -> PrivateKey?
  ) throws(CryptoError) -> InspectedObject {
    do throws(CryptoError) { return try open().map { .privateKey($0) } ?? .sealedKey } catch {
      switch error {
      case .passwordRequired, .wrongPassword: return .sealedKey
      default: throw error
      }
    }
  }
}
