package import Bytes
import Glibc
package import Observability

extension Pin {
  /// Returns the pin of a file's public key, of its first certificate's key, or of its private key's public key, for
  /// `sallyport pin FILE`. Blocks.
  package static func publicKey(
    in reference: MaterialReference, passwords: [SecretBytes] = []
  ) throws(MaterialError) -> Pin {
    let contents = try reference.contents(expecting: .pin)
    return try reference.parsing(.pin) { () throws(CryptoError) in
      if let digest = try contents.pinTargets(passwords: passwords).lazy.compactMap({ Pin($0).publicKeyDigest }).first {
        return Pin(.publicKey(digest))
      }
      guard let key = try contents.privateKey(passwords: passwords) else {
        throw .absent("holds no certificate and no key but \(contents.contentNames)")
      }
      return Pin(.publicKey(key.spkiSHA256))
    }
  }

  /// Loads the pins of a file, or of all files in a directory.
  static func load(
    _ reference: MaterialReference, scope: Scope, passwords: [SecretBytes]
  ) throws(MaterialError) -> [Pin] {
    guard let paths = try directory(reference) else {
      return try all(in: reference, scope: scope, passwords: passwords)
    }
    guard !paths.isEmpty else { throw MaterialError(reference, "an empty directory; expected certificates in it") }
    var pins: [Pin] = []
    for path in paths {
      pins += try ofDirectory(path, scope: scope, location: reference.location, passwords: passwords)
    }
    return pins
  }

  /// Loads the pins of one file of a directory.
  package static func ofDirectory(
    _ path: String, scope: Scope, location: SourceLocation?, passwords: [SecretBytes]
  ) throws(MaterialError) -> [Pin] {
    let file = MaterialReference(path: path, location: location)
    let pins = try all(in: file, scope: scope, passwords: passwords)
    for pin in pins {
      guard case .certificate = pin.target else {
        throw MaterialError(
          file, "holds a public key; of a directory every file must be a certificate",
          hint: "name the key's file itself: \(path)")
      }
    }
    return pins
  }

  /// Returns the paths of the files of a directory, at least one; nil when the reference is to something else.
  package static func files(of reference: MaterialReference) throws(MaterialError) -> [String]? {
    guard let paths = try directory(reference) else { return nil }
    guard !paths.isEmpty else { throw MaterialError(reference, "an empty directory; expected certificates in it") }
    return paths
  }

  /// Loads at least one pin.
  private static func all(
    in reference: MaterialReference, scope: Scope, passwords: [SecretBytes]
  ) throws(MaterialError) -> [Pin] {
    let contents = try reference.contents(expecting: .pin)
    return try reference.parsing(.pin) { () throws(CryptoError) in
      let targets = try contents.pinTargets(passwords: passwords)
      guard !targets.isEmpty else {
        throw .absent("holds no certificate and no public key but \(contents.contentNames)")
      }
      return targets.map { Pin($0, scope: scope) }
    }
  }

  /// Returns the paths of a directory's entries, sorted by name, without hidden ones; nil when the path is not a
  /// directory.
  ///
  /// A subdirectory or dangling link is not skipped: reading it fails with an error.
  private static func directory(_ reference: MaterialReference) throws(MaterialError) -> [String]? {
    let path = try reference.resolvedPath(expecting: .pin)
    guard FileStamp(path)?.isDirectory == true else { return nil }
    do throws(DirectoryError) {
      return try namesInDirectory(path).map { "\(path)/\($0)" }
    } catch {
      throw MaterialError(
        reference, "the directory cannot be read: \(String(cString: strerror(error.code))); expected certificates in it"
      )
    }
  }
}

extension MaterialContents {
  /// Returns all certificates in order, then all public keys; of a PKCS#12 file only its leaf.
  fileprivate func pinTargets(passwords: [SecretBytes]) throws(CryptoError) -> [Pin.Target] {
    var targets: [Pin.Target] = []
    switch self {
    case .publicKey(let key): targets = [.publicKey(key.sha256)]
    case .certificate(let certificate): targets = [.certificate(certificate)]
    case .pkcs12: targets = try certificates(passwords: passwords).prefix(1).map { .certificate($0) }
    case .pem(let blocks):
      targets = try PEMBlock.certificates(in: blocks).map { .certificate($0) }
      for block in blocks where block.holdsPublicKey {
        let key = try block.contents.withUnsafeBytes { (der) throws(CryptoError) in try PublicKey(der: der) }
        targets.append(.publicKey(key.sha256))
      }
    case .privateKey, .encryptedPrivateKey: break
    }
    return targets
  }
}
