import Bytes
import Crypto

/// Certificates made once for the run of this suite.
struct Fixtures: Sendable {
  let root: CertifiedKey
  let intermediate: CertifiedKey
  let server: CertifiedKey
  let client: CertifiedKey

  static let shared = Result { try Fixtures() }

  private init() throws {
    root = try CertificateBuilder(commonName: "Test Root", .authority(pathLength: nil)).selfSigned(key: .generate())
    intermediate = try CertificateBuilder(commonName: "Test Intermediate", .authority(pathLength: 0))
      .signed(by: root, key: .generate())
    server = try CertificateBuilder(
      commonName: "localhost", .leaf([.serverAuth]), names: [.dns("localhost"), .ip("127.0.0.1"), .ip("::1")]
    ).signed(by: intermediate, key: .generate())
    var person = CertificateBuilder(
      commonName: "Ærøskøbing, \"Bob\"", .leaf([.clientAuth]),
      names: [.email("bob@example.org"), .uri("spiffe://prod/ns/a/sa/b"), .dns("bob.example.org")])
    person.subject =
      [
        (.country, "SE"), (.organization, "Example + Sons"), (.organizationalUnit, "One"), (.organizationalUnit, "Two"),
      ] + person.subject
    client = try person.signed(by: intermediate, key: .generate(.rsa(bits: 2048)))
  }
}

extension SecretBytes {
  convenience init(text: String) { self.init(Array(text.utf8)) }
  var bytes: [UInt8] { withUnsafeBytes { Array($0) } }
}
