import COpenSSL
import Glibc

/// Makes certificates, for `sallyport demo`, the local authority and every test.
///
/// This value describes a certificate except for its keys. Defaults: SHA-256 signatures, random 127-bit serials, key
/// identifiers.
package struct CertificateBuilder: Sendable {
  package enum Purpose: Sendable, Hashable {
    /// A CA, which may sign certificates and CRLs. `pathLength`: how many CAs may follow below it; nil for any number.
    case authority(pathLength: Int?)
    /// A server or a client. Without usages the certificate has no extendedKeyUsage extension and is valid for both.
    case leaf([ExtendedKeyUsage])
  }

  package enum ExtendedKeyUsage: String, Sendable, Hashable {
    case serverAuth, clientAuth
    /// May sign OCSP responses for its issuer.
    case ocspSigning = "OCSPSigning"
  }

  /// The hash function of a signature. The older ones are for tests of what must be refused.
  package enum SignatureDigest: Sendable, Hashable {
    case sha256, sha1, md5
  }

  package enum AttributeType: Sendable, Hashable {
    case commonName, organization, organizationalUnit, country, emailAddress
    /// By OpenSSL's short or long name, or as numbers with dots.
    case named(String)
  }

  package enum AlternativeName: Sendable, Hashable {
    case dns(String), uri(String), email(String)
    /// In usual notation, IPv4 or IPv6.
    case ip(String)
    /// Unchanged octets, even control characters: for tests of what must be refused.
    case raw(SubjectAlternativeName.Kind, [UInt8])
  }

  package var subject: [(type: AttributeType, value: String)]
  package var purpose: Purpose
  package var signatureDigest = SignatureDigest.sha256
  package var alternativeNames: [AlternativeName] = []
  /// Name constraints of an authority (RFC 5280 §4.2.1.10): the only DNS names, with all names below them, and IP
  /// addresses that it may certify. Empty: no constraints.
  package var permittedNames: [AlternativeName] = []
  /// The extendedKeyUsage of an authority; empty: no such extension. Public CAs limit theirs to servers.
  package var authorityUsages: [ExtendedKeyUsage] = []
  /// Replaces a leaf's keyUsage, in OpenSSL's configuration syntax: for tests of what must be refused.
  package var rawKeyUsage: String?
  /// Where the issuer's revocation list is (cRLDistributionPoints); without a comma.
  package var revocationURLs: [RevocationURL] = []
  /// The digest in the critical extension acmeIdentifier of a tls-alpn-01 challenge (RFC 8737 §3), 32 octets; nil: the
  /// certificate has no such extension.
  package var acmeIdentifier: [UInt8]?
  /// Hexadecimal digits of the serial number; nil: 127 random bits.
  package var serial: String?
  /// Whether the certificate names its issuer's key. An issuer without a key identifier can't be named so.
  package var namesIssuerKey = true
  /// Seconds since 1970; may be in the past.
  package var notBefore: Int64
  package var notAfter: Int64
  /// Octets that replace notAfter and need not be a time: for tests of what must be refused.
  package var rawNotAfter: [UInt8]?

  /// Makes a certificate valid from an hour ago, for clocks that are a little behind, until `days` days from now.
  package init(commonName: String, _ purpose: Purpose, names: [AlternativeName] = [], days: Int64 = 365) {
    let now = Int64(time(nil))
    self.subject = [(.commonName, commonName)]
    self.purpose = purpose
    self.alternativeNames = names
    self.notBefore = now - 3600
    self.notAfter = now + days * 86_400
  }

  /// Makes a certificate signed by its own key.
  package func selfSigned(key: PrivateKey) throws(OpenSSLError) -> CertifiedKey {
    try pair(certificate(for: key.handle, issuer: nil, signedBy: key), chain: [], key: key)
  }

  /// Makes a certificate signed by an authority. The chain is what a server sends in a handshake: the authority's
  /// certificate and chain without self-signed certificates.
  package func signed(by authority: CertifiedKey, key: PrivateKey) throws(OpenSSLError) -> CertifiedKey {
    let chain = ([authority.certificate] + authority.chain).filter { !$0.isSelfIssued }
    return try pair(
      certificate(for: key.handle, issuer: authority.certificate, signedBy: authority.key), chain: chain,
      key: key)
  }

  /// Makes a certificate for somebody else's key, whose private half the authority never sees.
  package func signed(by authority: CertifiedKey, for key: PublicKey) throws(OpenSSLError) -> Certificate {
    let handle = key.subjectPublicKeyInfo.withUnsafeBytes { bytes in
      decoded(bytes, free: EVP_PKEY_free, { d2i_PUBKEY(nil, $0, $1) })
    }
    guard let handle else { throw OpenSSLError.drain() }
    defer { EVP_PKEY_free(handle) }
    return try certificate(for: handle, issuer: authority.certificate, signedBy: authority.key)
  }

  private func pair(
    _ certificate: Certificate, chain: [Certificate], key: PrivateKey
  ) throws(OpenSSLError) -> CertifiedKey {
    guard let pair = CertifiedKey(certificate: certificate, chain: chain, key: key) else { throw OpenSSLError.drain() }
    return pair
  }
}
