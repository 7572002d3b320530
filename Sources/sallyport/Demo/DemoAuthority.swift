import Bytes
import Crypto
import Glibc

/// The demo's CA. Its key stays in the folder, so that certificates are renewed under the CA that clients already
/// trust. With a stolen key an attacker can certify only the demo's names (name constraints).
struct DemoAuthority {
  let pair: CertifiedKey
  /// The CA was made just now, so no client trusts it yet, and it has issued nothing.
  let isNew: Bool

  private static let years: Int64 = 10
  private static let internalName = "demo.internal"

  /// Keeps the existing CA while it may certify these names; otherwise makes one.
  init(in folder: DemoFolder, names: [DemoName]) throws(DemoFailure) {
    if let kept = Self.kept(in: folder, names) {
      pair = kept
      isNew = false
      return
    }
    var builder = CertificateBuilder(
      commonName: "sallyport demo CA \(time(nil))", .authority(pathLength: 1), days: Self.years * 365)
    builder.permittedNames = [.dns(Self.internalName)] + names.map(\.alternative)
    let made = builder
    pair = try DemoFailure.making { () throws(OpenSSLError) -> CertifiedKey in try made.selfSigned(key: .generate()) }
    isNew = true
    // The key and names come first: without the certificate, the CA does not count as kept.
    try folder.write(try pem(of: pair.key), to: "ca.key")
    try folder.write(names.map(\.text).joined(separator: "\n") + "\n", to: "ca.names")
    try folder.write(pair.certificate.pem, to: "ca.crt")
  }

  private static func kept(in folder: DemoFolder, _ names: [DemoName]) -> CertifiedKey? {
    guard let pair = folder.pair("ca"), !pair.certificate.notAfter.hasEnded(at: Int64(time(nil)) + 365 * 86_400),
      let permitted = folder.text("ca.names")?.split(separator: "\n").map(String.init),
      Set(names.map(\.text)).isSubset(of: permitted)
    else { return nil }
    return pair
  }
}
