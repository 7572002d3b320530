import Crypto

/// What an authority has issued, and which of it is revoked: in the authority's folder, or in a database that several
/// machines share.
///
/// Blocks, so never use it on an event loop.
protocol CertificateRegister: CertificateHolders, Sendable {
  /// Where certificates are kept, for messages.
  var words: String { get }

  /// Reads everything.
  func index() throws(AuthorityError) -> AuthorityIndex

  /// Returns the issued certificates of these serials; without those that another program issued and keeps elsewhere.
  func certificates(_ serials: [String]) throws(AuthorityError) -> [String: Certificate]

  func entry(_ serial: String) throws(AuthorityError) -> AuthorityIndex.Entry?

  /// The serial of the certificate that was issued with a token. `digest`: of the token, in hexadecimal digits.
  func serial(ofToken digest: String) throws(AuthorityError) -> String?

  /// Registers a certificate of this CA unless `isWanted` returns false while nobody else can change the register. Then
  /// nothing changes, and the result is false. Give nobody a certificate that is not registered.
  func register(
    _ issued: Certificate, signer: CertifiedKey, token digest: String?,
    if isWanted: (any CertificateHolders) throws(AuthorityError) -> Bool
  ) throws(AuthorityError) -> Bool

  /// Runs `body` on the index while nobody else can change the register, and writes the result: what `body` revoked, and
  /// the CRL if it is due or `renewsAlways`. `days`: the CRL's lifetime.
  func change(
    _ signer: CertifiedKey, days: Int64, renewsAlways: Bool,
    _ body: (inout AuthorityIndex) throws(AuthorityError) -> Void
  ) throws(AuthorityError)

  /// Renews the CRL if it is due, and forgets tokens whose certificate is expired or revoked.
  func keepUp(_ signer: CertifiedKey, at now: Int64) throws(AuthorityError)

  /// Brings crl.pem in the folder up to what other machines have changed. Returns whether it was behind.
  func fetchList() throws(AuthorityError) -> Bool
}

/// Who holds which certificates. A change of a register sees them as they are while nobody else can change it.
protocol CertificateHolders {
  /// Returns the valid certificates of a common name.
  func held(by name: CommonName, at now: Int64) throws(AuthorityError) -> [HeldCertificate]
}

/// One valid certificate of a common name.
struct HeldCertificate: Sendable, Hashable {
  let serial: String
  /// Seconds since 1970.
  let notAfter: Int64
  /// `urn:device:…` (RFC 5280's uniformResourceIdentifier); nil when the register does not have the certificate, so that
  /// its purpose is unknown.
  let uris: [String]?
}
