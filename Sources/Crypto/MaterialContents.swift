import Bytes
import COpenSSL

/// What a file contains, recognised by content, never by name.
enum MaterialContents {
  case pem([PEMBlock])
  case certificate(Certificate)
  case publicKey(PublicKey)
  case privateKey(PrivateKey)
  case encryptedPrivateKey(SecretBytes)
  /// Still encrypted: opening it takes a pass phrase.
  case pkcs12(SecretBytes)

  init(_ bytes: SecretBytes) throws(CryptoError) {
    self = try bytes.withUnsafeBytes { (raw) throws(CryptoError) in
      let sequence: UInt8 = 0x30
      if raw.first == sequence {
        if let object = Self.der(raw, bytes) { return object }
        let algorithm = PostQuantumSignature(ofPrivateKey: raw) ?? PostQuantumSignature(ofPublicKey: raw)
        if let algorithm, !algorithm.isAvailable { throw CryptoError.missing(algorithm) }
      }
      if let foreign = Self.foreign(raw) { throw CryptoError.malformed(foreign) }
      let blocks = try PEMBlock.all(in: raw)
      guard !blocks.isEmpty else { throw CryptoError.malformed("neither PEM nor DER nor PKCS#12") }
      return .pem(blocks)
    }
  }

  /// What a file is by its first bytes that nothing here reads; nil: not known.
  private static func foreign(_ raw: UnsafeRawBufferPointer) -> String? {
    func begins(_ bytes: UInt8...) -> Bool { raw.starts(with: bytes) }
    // JKS, and JCEKS.
    if begins(0xFE, 0xED, 0xFE, 0xED) || begins(0xCE, 0xCE, 0xCE, 0xCE) {
      return
        "a Java keystore (JKS), which only Java opens (keytool -importkeystore -srckeystore FILE -destkeystore NEW.p12 "
        + "-deststoretype pkcs12 makes a PKCS#12 of it)"
    }
    if begins(0xFF, 0xFE) || begins(0xFE, 0xFF) { return "text in UTF-16 (save it as ASCII)" }
    return nil
  }

  private static func der(_ raw: UnsafeRawBufferPointer, _ bytes: SecretBytes) -> MaterialContents? {
    defer { OpenSSLError.discard() }
    if let certificate = try? Certificate(der: raw) { return .certificate(certificate) }
    if let file = decoded(raw, free: PKCS12_free, { d2i_PKCS12(nil, $0, $1) }) {
      PKCS12_free(file)
      return .pkcs12(bytes)
    }
    if let sealed = decoded(raw, free: X509_SIG_free, { d2i_X509_SIG(nil, $0, $1) }) {
      X509_SIG_free(sealed)
      return .encryptedPrivateKey(bytes)
    }
    if let key = try? PublicKey(der: raw) { return .publicKey(key) }
    if let key = try? PrivateKey(der: raw) { return .privateKey(key) }
    return nil
  }

  /// Returns the certificate that a peer is shown, and those that link it to its root or are beside it in a PEM file.
  func presented(passwords: [SecretBytes]) throws(CryptoError) -> [Certificate] {
    guard case .pkcs12(let file) = self else { return try certificates(passwords: passwords) }
    let opened = try Self.open(file, passwords)
    return [opened.leaf] + opened.chain
  }

  /// Returns every certificate; that of a PKCS#12 file starts with its leaf.
  func certificates(passwords: [SecretBytes]) throws(CryptoError) -> [Certificate] {
    let certificates: [Certificate] =
      switch self {
      case .pem(let blocks): try PEMBlock.certificates(in: blocks)
      case .certificate(let certificate): [certificate]
      case .pkcs12(let file): try Self.open(file, passwords).certificates
      case .publicKey, .privateKey, .encryptedPrivateKey: []
      }
    guard !certificates.isEmpty else { throw .absent("holds no certificate but \(contentNames)") }
    return certificates
  }

  /// Returns the private key; nil when the file holds none.
  func privateKey(passwords: [SecretBytes]) throws(CryptoError) -> PrivateKey? {
    switch self {
    case .pem(let blocks):
      guard let block = blocks.first(where: \.holdsPrivateKey) else { return nil }
      return try EncryptedKey.privateKey(in: block, passwords: passwords)
    case .privateKey(let key): return key
    case .encryptedPrivateKey(let file):
      return try file.withUnsafeBytes { (der) throws(CryptoError) in
        try EncryptedKey.privateKey(encryptedDER: der, passwords: passwords)
      }
    case .pkcs12(let file): return try Self.open(file, passwords).key
    case .certificate, .publicKey: return nil
    }
  }

  private static func open(_ file: SecretBytes, _ passwords: [SecretBytes]) throws(CryptoError) -> PKCS12 {
    try file.withUnsafeBytes { (der) throws(CryptoError) in try PKCS12(der: der, passwords: passwords) }
  }

  /// Whether the file has a private key, and no certificate.
  var isKeyAlone: Bool {
    switch self {
    case .pem(let blocks): blocks.contains(where: \.holdsPrivateKey) && !blocks.contains(where: \.holdsCertificate)
    case .privateKey, .encryptedPrivateKey: true
    case .certificate, .publicKey, .pkcs12: false
    }
  }

  /// Whether the file has a certificate, and no private key.
  var isCertificateAlone: Bool {
    switch self {
    case .pem(let blocks): blocks.contains(where: \.holdsCertificate) && !blocks.contains(where: \.holdsPrivateKey)
    case .certificate: true
    case .publicKey, .privateKey, .encryptedPrivateKey, .pkcs12: false
    }
  }

  /// Describes the content, for messages about what was expected.
  var contentNames: String {
    switch self {
    case .pem(let blocks):
      "PEM of " + blocks.prefix(3).map { $0.label.lowercased() }.joined(separator: ", ")
        + (blocks.count > 3 ? ", …" : "")
    case .certificate: "a DER certificate"
    case .publicKey: "a DER public key"
    case .privateKey: "a DER private key"
    case .encryptedPrivateKey: "an encrypted DER private key"
    case .pkcs12: "a PKCS#12"
    }
  }
}

extension MaterialReference {
  func contents(expecting kind: MaterialKind, onlyRegular: Bool = false) throws(MaterialError) -> MaterialContents {
    let bytes = try read(expecting: kind, onlyRegular: onlyRegular)
    return try parsing(kind) { () throws(CryptoError) in try MaterialContents(bytes) }
  }

  /// Runs `parse` and turns its fault into an error about this file.
  func parsing<Object>(
    _ kind: MaterialKind, _ parse: () throws(CryptoError) -> Object
  ) throws(MaterialError) -> Object {
    do throws(CryptoError) { return try parse() } catch { throw MaterialError(self, expecting: kind, error) }
  }
}
