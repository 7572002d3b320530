/// A server of `sallyport demo --bad-servers`: each but `good` has one fault, for which a client must refuse it.
package enum BadServer: String, CaseIterable, Sendable {
  /// It has no fault: a client that refuses this one, too, has not shown that it verifies anything.
  case good
  case expired
  case notYetValid = "not-yet-valid"
  case wrongName = "wrong-name"
  case wrongUsage = "wrong-usage"
  case selfSigned = "self-signed"
  case wrongCA = "wrong-ca"
  case noIntermediate = "no-intermediate"
  case weakKey = "weak-key"
  case oldTLS = "old-tls"
  case wrongPin = "wrong-pin"
  case revoked

  package var fault: String {
    switch self {
    case .good: "no fault: the certificate of the demo itself"
    case .expired: "the certificate has expired"
    case .notYetValid: "the certificate is not yet valid"
    case .wrongName: "the certificate is for another name"
    case .wrongUsage: "the certificate is for clients alone (extended key usage)"
    case .selfSigned: "the server signed the certificate itself"
    case .wrongCA: "another CA issued the certificate"
    case .noIntermediate: "the server doesn't send the certificate of the intermediate CA"
    case .weakKey: "the key is RSA with 1024 bits"
    case .oldTLS: "TLS 1.0 and 1.1 only"
    case .wrongPin: "a right chain with another key: only a client that pins the key refuses it"
    case .revoked:
      "the certificate is revoked, by the list servers.crl and by the stapled OCSP response: only a client that asks for either refuses it"
    }
  }

  /// The port of the server, where `first` is the port that chooses by the name a client asks for.
  package func port(after first: UInt16) -> UInt16 {
    first &+ 1 &+ UInt16(truncatingIfNeeded: Self.allCases.firstIndex(of: self) ?? 0)
  }

  /// The highest port that `--bad-servers` may name.
  package static var highestFirstPort: UInt16 { .max - UInt16(truncatingIfNeeded: allCases.count) }
}
