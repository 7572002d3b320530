import Crypto
import Observability
import Patterns
import TLS
import Testing

@testable import Identity

let place = SourceLocation(file: "x.conf", line: 3, column: 5)

/// A rule of one line; `at` is its line number.
func rule(_ effect: ClientRule.Effect, _ words: String..., at line: Int = 3) throws -> ClientRule {
  let location = SourceLocation(file: "x.conf", line: line, column: 5)
  let (rule, faults) = ClientRule.parse(effect, words.map { ($0, location) }, at: location)
  return try #require(rule, "\(faults)")
}

func rules(allow: [ClientRule] = [], deny: [ClientRule] = []) throws -> ClientRules {
  try #require(ClientRules(allow: allow, deny: deny))
}

extension ClientRules.Decision {
  /// `admitted`, or the line of the rule that denied.
  var short: String {
    switch self {
    case .admitted: "admitted"
    case .denied(let place, _): "denied by line \(place.line)"
    }
  }
}

extension ClientRules {
  func verdict(on client: Client) -> String { judge(client, scratch: RegularExpression.Scratch()).short }
  func verdict(on certificate: Certificate) -> String { verdict(on: .known(PeerIdentity(leaf: certificate))) }
}

/// The certificates that the tests of the suite share: keys take time to make.
struct Certificates: Sendable {
  let root: CertifiedKey
  let intermediate: CertifiedKey
  private let key: PrivateKey
  /// OU twice, every kind of name.
  let alice: Certificate

  static let shared = Result { try Certificates() }

  init() throws {
    root = try CertificateBuilder(commonName: "Root", .authority(pathLength: nil)).selfSigned(key: .generate())
    intermediate = try CertificateBuilder(commonName: "Intermediate", .authority(pathLength: nil))
      .signed(by: root, key: .generate())
    key = try PrivateKey.generate()
    var builder = CertificateBuilder(
      commonName: "alice", .leaf([.clientAuth]),
      names: [
        .dns("WWW.Example.com"), .dns("b.example.com"), .email("Alice.B@Example.ORG"),
        .uri("spiffe://Prod/ns/a/sa/api"),
        .ip("192.0.2.7"), .ip("2001:DB8::7"),
      ])
    builder.subject += [
      (.organization, "Example, Inc."), (.organizationalUnit, "dev"),
      (.organizationalUnit, "ops"),
    ]
    alice = try builder.signed(by: intermediate, key: key).certificate
  }

  /// With several common names.
  func leaf(_ commonNames: [String]) throws -> Certificate {
    var builder = CertificateBuilder(commonName: "", .leaf([.clientAuth]))
    builder.subject = [(.organization, "Example")] + commonNames.map { (.commonName, $0) }
    return try builder.signed(by: root, key: key).certificate
  }

  func leaf(_ commonName: String, _ names: [CertificateBuilder.AlternativeName] = []) throws -> Certificate {
    try CertificateBuilder(commonName: commonName, .leaf([.clientAuth]), names: names).signed(by: root, key: key)
      .certificate
  }
}
