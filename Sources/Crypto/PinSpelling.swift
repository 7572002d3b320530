package import Bytes
package import Observability

extension Pin {
  /// curl's spelling of a public-key pin.
  package static func spelling(publicKeyDigest digest: [UInt8]) -> String { "sha256//\(Base64.encode(digest))" }
  /// sallyport's spelling of a pin of a whole certificate.
  package static func spelling(certificateDigest digest: [UInt8]) -> String { "cert:\(Hex.encode(digest))" }

  /// The kind of a pin, as its spelling shows without reading a file.
  package enum Spelling: Sendable, Hashable {
    case keyHash, certificateHash
    /// A hash of a kind that is too weak.
    case weakHash
    case file

    package init(_ text: String) {
      func begins(_ prefixes: String...) -> Bool { prefixes.contains { text.hasPrefix($0) } }
      if begins("sha256//", "sha256/", "sha256:", "spki:") {
        self = .keyHash
      } else if begins("cert:") {
        self = .certificateHash
      } else {
        self = begins("sha1/", "sha1:", "md5/", "md5:") ? .weakHash : .file
      }
    }
  }

  /// Parses one argument of `proxy_ssl_pin` or `ssl_client_pin`. The result is one pin, or one for each certificate or key of a file or
  /// directory.
  ///
  /// The spellings of hashes are `sha256//BASE64` (curl), `sha256/BASE64` (OkHttp), `sha256:BASE64` (ghostunnel),
  /// `spki:HEX` and `cert:HEX`. Anything else is a file: certificates or public keys as PEM or DER, a PKCS#12 file (its
  /// leaf), or a directory that holds only files of certificates. Blocks when it is a file.
  package static func parse(
    _ text: String, scope: Scope = .leaf, relativeTo folder: String, location: SourceLocation? = nil,
    passwords: [SecretBytes] = []
  ) throws(MaterialError) -> [Pin] {
    func malformed(_ fault: String) -> MaterialError {
      MaterialError(
        culprit: text, location: location, message: "pin \"\(text)\": \(fault)",
        hint: "`sallyport pin FILE` or `sallyport pin HOST:PORT` prints the right one")
    }
    for prefix in ["sha256//", "sha256/", "sha256:"] where text.hasPrefix(prefix) {
      // In one of 64 keys the hash in Base64 begins with a slash; in OkHttp's spelling the second slash belongs to the
      // hash.
      if prefix == "sha256//", text.utf8.count == "sha256/".utf8.count + 44 { continue }
      do throws(PinError) {
        return [Pin(.publicKey(try digest(base64: String(text.dropFirst(prefix.count)))), scope: scope)]
      } catch { throw malformed(error.text) }
    }
    for prefix in ["spki:", "cert:"] where text.hasPrefix(prefix) {
      do throws(PinError) {
        let digest = try digest(hexadecimal: String(text.dropFirst(prefix.count)))
        return [Pin(prefix == "spki:" ? .publicKey(digest) : .certificateDigest(digest), scope: scope)]
      } catch { throw malformed(error.text) }
    }
    for prefix in ["sha1/", "sha1:", "md5/", "md5:"] where text.hasPrefix(prefix) {
      throw malformed("a pin is SHA-256; \(prefix.dropLast()) is too weak")
    }
    do throws(MaterialError) {
      let reference = try MaterialReference(parsing: text, relativeTo: folder, location: location)
      return try load(reference, scope: scope, passwords: passwords)
    } catch {
      if let fault = faultOfBareHash(text) { throw malformed(fault) }
      throw error
    }
  }

  /// What is wrong with a text that is no file but a hash without its kind, as other tools print it; nil: it is no hash.
  private static func faultOfBareHash(_ text: String) -> String? {
    // `openssl x509 -fingerprint` prints such a line.
    let bare =
      text.split(separator: "=", maxSplits: 1).last.map { text.contains("ingerprint=") ? String($0) : text } ?? text
    if let digest = try? Hex.decode(bare), digest.count == 32 {
      return "no such file, and a hash needs its kind: spki:\(Hex.encode(digest)) for a key's, "
        + "\(spelling(certificateDigest: digest)) for a certificate's fingerprint"
    }
    if bare.utf8.count == 44, let digest = try? Base64.decode(bare), digest.count == 32 {
      return "no such file, and a hash needs its kind: \(spelling(publicKeyDigest: digest)) for a key's"
    }
    if let digest = try? Hex.decode(bare), digest.count == 20 { return "a pin is SHA-256; a SHA-1 is too weak" }
    return nil
  }

  private struct PinError: Error { let text: String }

  private static func digest(base64 text: String) throws(PinError) -> [UInt8] {
    if text.utf8.count == 64, (try? Hex.decode(text)) != nil {
      throw PinError(text: "this is hexadecimal; write spki:\(text) for a key's hash, cert:\(text) for a certificate's")
    }
    let digest: [UInt8]
    do throws(Base64.DecodingError) { digest = try Base64.decode(text) } catch {
      throw PinError(text: "not base64: \(error)")
    }
    guard digest.count == 32 else {
      throw PinError(
        text: "\(digest.count) bytes, but a SHA-256 has 32 (44 characters of base64)\(sha1Note(digest))")
    }
    return digest
  }

  private static func digest(hexadecimal text: String) throws(PinError) -> [UInt8] {
    let digest: [UInt8]
    do throws(Hex.DecodingError) { digest = try Hex.decode(text) } catch {
      throw PinError(text: "not hexadecimal: \(error)")
    }
    guard digest.count == 32 else {
      throw PinError(
        text: "\(digest.count * 2) hexadecimal digits, but a SHA-256 has 64\(sha1Note(digest))")
    }
    return digest
  }

  private static func sha1Note(_ digest: [UInt8]) -> String {
    digest.count == 20 ? "; this looks like a SHA-1, which is too weak" : ""
  }
}
