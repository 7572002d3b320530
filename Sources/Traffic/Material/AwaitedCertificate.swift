import ACME
package import Bytes
package import Crypto
import Glibc

/// The file of a certificate of ACME. Blocks.
package enum AwaitedCertificate {
  /// Throws for a file that is cut, even behind a certificate.
  package static func load(_ file: MaterialReference, passwords: [SecretBytes] = [], _ tokens: TokenRefusals)
    throws(MaterialError)
    -> CertifiedKey
  {
    let pair = try CertifiedKey.load(
      certificate: file, key: nil, passwords: passwords, tokens: tokens, onlyRegular: true)
    guard IssuedCertificate.isWhole(try file.read(expecting: .certificate, onlyRegular: true)) else {
      throw MaterialError(
        culprit: file.description, location: file.location,
        message: "\"\(file)\" has fewer certificates than its first line says: it was cut")
    }
    return pair
  }

  /// Whether something is in the place of the file that this process may read, whatever it is.
  package static func isReadable(_ path: String) -> Bool { access(path, R_OK) == 0 }
}
