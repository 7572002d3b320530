package import Bytes
package import Crypto

/// A certificate as the server gave it, found to be what was asked for.
package struct IssuedCertificate: Sendable {
  package let pair: CertifiedKey

  private static let mostCertificates = 16

  /// `body`: PEM (RFC 8555 §7.4.2). Throws unless the first certificate has the key and all names and is valid now, and
  /// each further one issued the one before.
  init(
    _ body: [UInt8], for names: [ACMEIdentifier], _ key: PrivateKey, at now: Int64
  ) throws(ACMEError) {
    let certificates: [Certificate]
    do throws(CryptoError) {
      certificates = try Certificate.all(inPEM: String(decoding: body, as: UTF8.self))
    } catch {
      throw ACMEError("the server's certificate can't be read: \(error)")
    }
    guard let leaf = certificates.first, certificates.count <= Self.mostCertificates else {
      throw ACMEError("the server sent \(certificates.count) certificates")
    }
    guard let pair = CertifiedKey(certificate: leaf, chain: Array(certificates.dropFirst()), key: key) else {
      throw ACMEError("the server's certificate is for another key")
    }
    let alternatives = leaf.subjectAltNames
    for name in names where !alternatives.all.contains(where: { name.matches($0) }) {
      throw ACMEError("the server's certificate is not for \(name)")
    }
    guard leaf.notBefore.hasBegun(at: now), !leaf.notAfter.hasEnded(at: now) else {
      throw ACMEError("the server's certificate is not valid now", hint: "is this machine's clock right?")
    }
    for (issuer, issued) in zip(certificates.dropFirst(), certificates) where !issuer.issued(issued) {
      throw ACMEError("the server's chain is broken: \(issuer.subject) did not issue \(issued.subject)")
    }
    self.pair = pair
  }

  /// Whether the chain's last certificate was issued by this common name.
  func endsAt(_ commonName: String) -> Bool {
    let last = pair.chain.last ?? pair.certificate
    return last.issuer.commonName.all.contains(Array(commonName.utf8))
  }

  /// The file that a server loads: the key, the certificate and its chain, one after the other, so that they can never
  /// be of two issuances. Its first line says how many certificates there are: without that, a file that is cut behind
  /// one of them looks whole, and serves without the chain.
  package func fileContents() throws(ACMEError) -> SecretBytes {
    let key: SecretBytes
    do throws(OpenSSLError) {
      key = try pair.key.pem
    } catch {
      throw ACMEError("OpenSSL does not write the key: \(error)")
    }
    let chain = ([pair.certificate] + pair.chain).map(\.pem).joined()
    let count = "\(Self.countMark)\(1 + pair.chain.count)\n"
    return SecretBytes(Array(count.utf8) + key.withUnsafeBytes { Array($0) } + Array(chain.utf8))
  }

  private static let countMark = "# certificates in this file: "

  /// Whether a file has as many certificates as its first line says. A file that says nothing counts as whole.
  package static func isWhole(_ file: SecretBytes) -> Bool {
    file.withUnsafeBytes { bytes in
      let mark = Array(countMark.utf8)
      guard bytes.starts(with: mark) else { return true }
      let digits = bytes.dropFirst(mark.count).prefix { $0 != 0x0A }
      guard let count = Int(String(decoding: digits, as: UTF8.self)) else { return false }
      let end = Array("-----END CERTIFICATE-----".utf8)
      return bytes.split(separator: 0x0A).count { $0.elementsEqual(end) } == count
    }
  }
}
