import Bytes
import COpenSSL

/// An X.509 certificate, parsed but not verified.
///
/// It owns one reference to an OpenSSL X509 and releases it on deinit.
// @unchecked: nothing changes the X509 through the handle after `init`, and OpenSSL locks what it caches inside an
// X509.
public final class Certificate: @unchecked Sendable {
  /// X509*, borrowed. A caller that keeps it longer than this object takes its own reference.
  package let handle: OpaquePointer

  /// Takes ownership of one reference.
  init(owning handle: OpaquePointer) { self.handle = handle }

  /// Takes a further reference to an X509 that another object owns.
  package init(retaining handle: OpaquePointer) {
    X509_up_ref(handle)
    self.handle = handle
  }

  /// Parses exactly one DER certificate, without a byte after it.
  package init(der: UnsafeRawBufferPointer) throws(CryptoError) {
    guard let handle = decoded(der, free: X509_free, { d2i_X509(nil, $0, $1) }) else {
      throw .malformed("not a DER certificate (\(OpenSSLError.drain()))")
    }
    self.handle = handle
  }

  /// Parses OpenSSL's TRUSTED CERTIFICATE: a certificate with the purposes it is trusted for, which verification
  /// respects.
  init(trustedDER der: UnsafeRawBufferPointer) throws(CryptoError) {
    guard let handle = decoded(der, free: X509_free, { d2i_X509_AUX(nil, $0, $1) }) else {
      throw .malformed("not a DER certificate (\(OpenSSLError.drain()))")
    }
    self.handle = handle
  }

  deinit { X509_free(handle) }

  package convenience init(der: [UInt8]) throws(CryptoError) {
    let parsed = try der.withBytes { (raw) throws(CryptoError) in try Certificate(der: raw) }
    self.init(retaining: parsed.handle)
  }

  /// Returns the first certificate of a PEM text.
  package static func first(inPEM text: String) throws(CryptoError) -> Certificate {
    guard let first = try all(inPEM: text).first else { throw .absent("no certificate in it") }
    return first
  }

  /// Returns every certificate of a PEM text in order, including TRUSTED ones. Skips other blocks; a damaged block is
  /// an error.
  package static func all(inPEM text: String) throws(CryptoError) -> [Certificate] {
    try Array(text.utf8).withBytes { (raw) throws(CryptoError) in
      try PEMBlock.certificates(in: PEMBlock.all(in: raw))
    }
  }
}

extension Certificate {
  /// The encoding that was signed.
  package var der: [UInt8] { encoded { i2d_X509(handle, $0) } ?? [] }
  /// nginx's $ssl_client_raw_cert: PEM with its last line feed.
  package var pem: String { MemoryBIO.text { PEM_write_bio_X509($0, handle) } }

  package var subject: DistinguishedName { DistinguishedName(of: self, .subject) }
  package var issuer: DistinguishedName { DistinguishedName(of: self, .issuer) }
  /// Whether issuer and subject have the same name. The signature may still be another key's.
  package var isSelfIssued: Bool {
    X509_NAME_cmp(X509_get_issuer_name(handle), X509_get_subject_name(handle)) == 0
  }

  /// The DER of the subject.
  package var subjectOctets: [UInt8] { encoded { i2d_X509_NAME(X509_get_subject_name(handle), $0) } ?? [] }

  /// Whether names and key identifiers say that this certificate issued the other. Verification checks the signature.
  package func issued(_ other: Certificate) -> Bool { X509_check_issued(handle, other.handle) == X509_V_OK }

  /// nginx's $ssl_client_serial: upper-case hexadecimal octets, `-` before a negative number.
  package var serial: String { Self.hexadecimal(UnsafeRawPointer(X509_get0_serialNumber(handle))) ?? "" }

  /// Returns upper-case hexadecimal octets, `-` before a negative number; nil for nil. `number`: ASN1_INTEGER*, borrowed.
  static func hexadecimal(_ number: UnsafeRawPointer?) -> String? {
    guard let number else { return nil }
    let octets = Array(
      UnsafeBufferPointer(start: copenssl_string_bytes(number), count: copenssl_string_count(number)))
    let sign = copenssl_integer_is_negative(number) != 0 ? "-" : ""
    return sign + (octets.isEmpty ? "00" : Hex.encode(octets, .upper))
  }

  /// nginx's $ssl_client_fingerprint: SHA-1 in lower-case hexadecimal.
  package var sha1Fingerprint: String { Hex.encode(digest(EVP_sha1())) }
  /// 32 octets: the SHA-256 of the whole certificate.
  package var sha256: [UInt8] { digest(EVP_sha256()) }
  /// 32 octets: the SHA-256 of the SubjectPublicKeyInfo, which a pin names.
  package var spkiSHA256: [UInt8] { publicKey.sha256 }
  package var publicKey: PublicKey {
    PublicKey(ofSubjectPublicKeyInfo: encoded { i2d_X509_PUBKEY(X509_get_X509_PUBKEY(handle), $0) } ?? [])
  }

  private func digest(_ algorithm: OpaquePointer?) -> [UInt8] {
    Digest.collect { X509_digest(handle, algorithm, $0, $1) }
  }
}

extension Certificate: Hashable {
  /// Two certificates are equal if their encodings are, byte for byte.
  public static func == (left: Certificate, right: Certificate) -> Bool {
    left.handle == right.handle || left.der == right.der
  }

  public func hash(into hasher: inout Hasher) { hasher.combine(sha256) }
}
