import Glibc

/// Makes certificates: for `sallyport demo`, for the local authority, and for every test.
///
/// A value that says all of a certificate but its keys. SHA-256 signatures unless told otherwise, random 127-bit serials, key identifiers.
package struct CertificateBuilder: Sendable {
  package enum Purpose: Sendable, Hashable {
    /// A CA: may sign certificates and CRLs. `pathLength`: how many CAs may follow below it, nil for any number.
    case authority(pathLength: Int?)
    /// A server's or client's. No usage at all leaves the extendedKeyUsage extension out: fit for both.
    case leaf([ExtendedKeyUsage])
  }

  package enum ExtendedKeyUsage: String, Sendable, Hashable {
    case serverAuth, clientAuth
    /// May answer OCSP questions for its issuer.
    case ocspSigning = "OCSPSigning"
  }

  /// What a signature is made over. The older ones are for tests of what must be refused.
  package enum SignatureDigest: Sendable, Hashable {
    case sha256, sha1, md5
  }

  package enum AttributeType: Sendable, Hashable {
    case commonName, organization, organizationalUnit, country, emailAddress
  }

  package enum AlternativeName: Sendable, Hashable {
    case dns(String), uri(String), email(String)
    /// In usual notation, IPv4 or IPv6.
    case ip(String)
    /// Octets as they are, control characters too: for tests of what must be refused.
    case raw(SubjectAlternativeName.Kind, [UInt8])
  }

  package var subject: [(type: AttributeType, value: String)]
  package var purpose: Purpose
  package var signatureDigest = SignatureDigest.sha256
  package var alternativeNames: [AlternativeName] = []
  /// Of an authority: the only DNS names (and what lies under them) and IP addresses that it may certify, when there are
  /// any (RFC 5280 §4.2.1.10).
  package var permittedNames: [AlternativeName] = []
  /// Seconds since 1970; may lie in the past.
  package var notBefore: Int64
  package var notAfter: Int64
  /// Octets that stand in the place of notAfter, no time perhaps: for tests of what must be refused.
  package var rawNotAfter: [UInt8]?

  /// Valid from an hour ago, for clocks that are a little behind, for `days` days from now.
  package init(commonName: String, _ purpose: Purpose, names: [AlternativeName] = [], days: Int64 = 365) {
    let now = Int64(time(nil))
    self.subject = [(.commonName, commonName)]
    self.purpose = purpose
    self.alternativeNames = names
    self.notBefore = now - 3600
    self.notAfter = now + days * 86_400
  }

  /// A certificate signed by its own key.
  package func selfSigned(key: PrivateKey) throws(OpenSSLError) -> CertifiedKey {
    try pair(certificate(for: key, issuer: nil, signedBy: key), chain: [], key: key)
  }

  /// A certificate signed by an authority. The chain is the authority's certificate and its chain, self-signed ones
  /// left out: what is sent in a handshake.
  package func signed(by authority: CertifiedKey, key: PrivateKey) throws(OpenSSLError) -> CertifiedKey {
    let chain = ([authority.certificate] + authority.chain).filter { !$0.isSelfIssued }
    return try pair(
      certificate(for: key, issuer: authority.certificate, signedBy: authority.key), chain: chain, key: key)
  }

  private func pair(
    _ certificate: Certificate, chain: [Certificate], key: PrivateKey
  ) throws(OpenSSLError) -> CertifiedKey {
    guard let pair = CertifiedKey(certificate: certificate, chain: chain, key: key) else { throw OpenSSLError.drain() }
    return pair
  }
}
