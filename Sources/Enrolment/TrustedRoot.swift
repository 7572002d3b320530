package import Crypto
import Glibc

/// A certificate that may enter the system's trust store: a root that may sign certificates. Nothing else can be made
/// into one.
package struct TrustedRoot: Sendable {
  package let certificate: Certificate
  /// The file of an authority's folder that holds this root alone, as PEM; nil for another source.
  package let ownFile: String?

  /// `source`: the folder of an authority, or a file with a root certificate. Blocks.
  ///
  /// `isToRemove`: takes any certificate that is its own issuer, because a root that has ended, or that a stricter version
  /// no longer adds, must leave the store, too.
  package init(_ source: String, isToRemove: Bool = false, at now: Int64 = Int64(time(nil))) throws(AuthorityError) {
    let path = Self.file(of: source)
    let all: [Certificate]
    do throws(MaterialError) { all = try Certificate.loadAll(MaterialReference(path: path)) } catch {
      throw AuthorityError(error.message, hint: "name the folder of an authority, or a CA's certificate")
    }
    let roots = all.filter(\.isSelfIssued)
    guard let certificate = roots.first, roots.count == 1 else {
      throw AuthorityError(
        "\"\(path)\" holds \(roots.count) certificates that are their own issuer; expected one root",
        hint: roots.isEmpty ? "an intermediate is no root: name the root's certificate" : "name a file with one of them"
      )
    }
    self.certificate = certificate
    ownFile = path != source && all.count == 1 ? path : nil
    if !isToRemove, let fault = Self.fault(of: certificate, now) {
      throw AuthorityError("\"\(path)\": \(certificate.subject) \(fault), so it is not trusted")
    }
  }

  /// The authority's root: root.crt of an intermediate's folder, otherwise ca.crt.
  private static func file(of source: String) -> String {
    var status = stat()
    guard stat(source, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else { return source }
    let root = "\(source)/root.crt"
    return access(root, F_OK) == 0 ? root : "\(source)/ca.crt"
  }

  private static func fault(of certificate: Certificate, _ now: Int64) -> String? {
    let usage = certificate.usage
    if usage.isAuthority != true { return "is no CA" }
    if usage.keyUsages?.contains("keyCertSign") == false { return "has a key usage that forbids to sign certificates" }
    if !usage.maySignCertificates { return "has extensions that OpenSSL can't read" }
    if !certificate.isSelfSigned { return "has a signature that is not its own key's" }
    if certificate.keyKind.isWeak { return "has a weak key (\(certificate.keyKind))" }
    if certificate.notAfter.hasEnded(at: now) { return "has ended on \(certificate.notAfterWords)" }
    return nil
  }

  /// The name in a trust store: of the certificate, so that adding it twice changes nothing.
  package var name: String { "sallyport-\(certificate.sha256.prefix(8).hexadecimal)" }
  package var fingerprint: String { certificate.sha256.hexadecimal }
}

extension Sequence<UInt8> {
  fileprivate var hexadecimal: String {
    map { byte in (byte < 16 ? "0" : "") + String(byte, radix: 16) }.joined()
  }
}
