import Bytes
package import Crypto

/// By what the server is to see that the names are ours (RFC 8555 §8, RFC 8737).
package enum ChallengeMethod: String, Sendable, Hashable, CaseIterable {
  case http01 = "http-01"
  case tlsALPN01 = "tls-alpn-01"
  case dns01 = "dns-01"
}

/// What answers a challenge, as long as its order is open.
package struct ChallengeAnswer: Sendable, Hashable {
  package let method: ChallengeMethod
  /// Without a wildcard.
  package let identifier: ACMEIdentifier
  package let token: String
  /// The token, a dot, and the thumbprint of the account's key (RFC 8555 §8.1).
  package let keyAuthorization: String

  /// The largest number of characters that a token may have.
  private static let longestToken = 256

  /// Returns nil for a token with other characters than those of base64url: it becomes part of paths (RFC 8555 §8.3).
  package init?(_ method: ChallengeMethod, _ identifier: ACMEIdentifier, token: String, key: JSONWebKey) {
    let isToken = token.utf8.allSatisfy { byte in
      (byte | 0x20) &- 97 < 26 || byte &- 48 < 10 || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
    }
    guard isToken, (1...Self.longestToken).contains(token.utf8.count) else { return nil }
    self.method = method
    self.identifier = identifier
    self.token = token
    keyAuthorization = "\(token).\(Base64.encodeURL(key.thumbprint))"
  }

  /// The SHA-256 that tls-alpn-01 and dns-01 show, 32 octets.
  package var digest: [UInt8] { Digest.of(Array(keyAuthorization.utf8)) }

  /// The text of the TXT record of dns-01 (RFC 8555 §8.4).
  package var recordText: String { Base64.encodeURL(digest) }

  /// The certificate of tls-alpn-01 (RFC 8737 §3), valid for a week: signed by a key of its own, for this name alone.
  package func certificate() throws(OpenSSLError) -> CertifiedKey {
    var builder = CertificateBuilder(
      commonName: "ACME challenge", .leaf([.serverAuth]), names: [identifier.alternativeName], days: 7)
    builder.acmeIdentifier = digest
    return try builder.selfSigned(key: .generate(.p256))
  }
}
