import Bytes
public import Crypto
public import TLS

/// `client_identity`: how the upstream is told who the client is.
public enum IdentityFieldForm: String, Sendable, Hashable {
  case off
  /// `Client-Cert` and `Client-Cert-Chain` (RFC 9440).
  case rfc9440
  /// Envoy's `X-Forwarded-Client-Cert`.
  case xfcc

  /// Fields that say who a client is: where we say it, no client says any of them, under no spelling.
  public static let names = ["Client-Cert", "Client-Cert-Chain", "X-Forwarded-Client-Cert"]
}

/// The fields that say who a client is. None without a verified chain.
public enum IdentityFields {
  public typealias Field = (name: String, value: String)

  /// `server`: the certificates that we show.
  public static func fields(
    _ form: IdentityFieldForm, _ chain: VerifiedChain?, server: [Certificate]
  ) -> [Field] {
    guard let chain else { return [] }
    switch form {
    case .off: return []
    case .rfc9440: return rfc9440(chain)
    case .xfcc: return [("X-Forwarded-Client-Cert", ForwardedClientCert.element(chain, server: server))]
    }
  }

  /// RFC 9440 §2.2 and §2.3: byte sequences (RFC 8941 §3.3.5), in the order in which each certifies the one before.
  private static func rfc9440(_ chain: VerifiedChain) -> [Field] {
    func sequence(_ certificate: Certificate) -> String { ":\(Base64.encode(certificate.der)):" }
    let others = chain.withoutAnchor.dropFirst()
    let leaf = ("Client-Cert", sequence(chain.leaf))
    // An empty list has no field (RFC 8941 §3.1).
    return others.isEmpty ? [leaf] : [leaf, ("Client-Cert-Chain", others.map(sequence).joined(separator: ", "))]
  }
}

extension VerifiedChain {
  /// Leaf first. The anchor is what everybody has who may judge.
  var withoutAnchor: [Certificate] { [leaf] + others.dropLast() }
}
