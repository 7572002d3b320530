import Bytes
public import Crypto
public import TLS

/// `client_identity`: how the proxy describes the client to the upstream.
public enum IdentityFieldForm: String, Sendable, Hashable {
  case off
  /// `Client-Cert` and `Client-Cert-Chain` (RFC 9440).
  case rfc9440
  /// The same fields, and a signature over them (RFC 9421), so that nobody else can tell the upstream who a client is.
  case signed
  /// Envoy's `X-Forwarded-Client-Cert`.
  case xfcc
  /// Parameters with the names of Apache's mod_ssl, for servers that are told of requests by parameters. It has no fields.
  case modSSL = "mod_ssl"

  /// The fields that describe a client. Where the proxy sends them, it removes them from the request, in every
  /// spelling.
  public static let names = ["Client-Cert", "Client-Cert-Chain", "X-Forwarded-Client-Cert"]
}

/// Makes the fields that describe a client; empty without a verified chain.
public enum IdentityFields {
  public typealias Field = (name: String, value: String)

  /// `server`: the server block's certificates.
  public static func fields(
    _ form: IdentityFieldForm, _ chain: VerifiedChain?, server: [Certificate]
  ) -> [Field] {
    guard let chain else { return [] }
    switch form {
    case .off, .modSSL: return []
    case .rfc9440, .signed: return rfc9440(chain)
    case .xfcc: return [("X-Forwarded-Client-Cert", ForwardedClientCert.element(chain, server: server))]
    }
  }

  /// RFC 9440 §2.2 and §2.3: byte sequences (RFC 8941 §3.3.5), each certificate followed by its issuer's.
  private static func rfc9440(_ chain: VerifiedChain) -> [Field] {
    func sequence(_ certificate: Certificate) -> String { ":\(Base64.encode(certificate.der)):" }
    let others = chain.withoutAnchor.dropFirst()
    let leaf = ("Client-Cert", sequence(chain.leaf))
    // RFC 8941 §3.1: an empty list has no field.
    return others.isEmpty ? [leaf] : [leaf, ("Client-Cert-Chain", others.map(sequence).joined(separator: ", "))]
  }
}

extension VerifiedChain {
  /// The chain, leaf first, without the anchor, which every party that may judge the chain has.
  var withoutAnchor: [Certificate] { [leaf] + others.dropLast() }
}
