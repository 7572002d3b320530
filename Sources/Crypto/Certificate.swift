import Bytes
import COpenSSL

/// An X.509 certificate, parsed. That it was parsed says nothing of trust.
///
/// Owns one reference to an OpenSSL X509, freed with the last of ours.
// @unchecked: nothing is changed through the handle once it is made, and OpenSSL locks what it caches inside an X509.
public final class Certificate: @unchecked Sendable {
  /// X509*. Borrowed by callers: who keeps it longer than this object takes a reference of its own.
  package let handle: OpaquePointer

  /// Takes over one reference.
  init(owning handle: OpaquePointer) { self.handle = handle }

  /// Takes a further reference to an X509 that somebody else owns.
  package init(retaining handle: OpaquePointer) {
    X509_up_ref(handle)
    self.handle = handle
  }

  /// Exactly one DER certificate, without a byte after it.
  package init(der: UnsafeRawBufferPointer) throws(CryptoError) {
    guard let handle = decoded(der, free: X509_free, { d2i_X509(nil, $0, $1) }) else {
      throw .malformed("not a DER certificate (\(OpenSSLError.drain()))")
    }
    self.handle = handle
  }

  /// OpenSSL's TRUSTED CERTIFICATE: a certificate and what it is trusted for, which verification heeds.
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

  /// The first certificate of a PEM text.
  package static func first(inPEM text: String) throws(CryptoError) -> Certificate {
    guard let first = try all(inPEM: text).first else { throw .absent("no certificate in it") }
    return first
  }

  /// Every certificate of a PEM text in order, TRUSTED ones too; other blocks are passed over, damaged ones are not.
  package static func all(inPEM text: String) throws(CryptoError) -> [Certificate] {
    try Array(text.utf8).withBytes { (raw) throws(CryptoError) in
      try PEMBlock.certificates(in: PEMBlock.all(in: raw))
    }
  }
}

extension Certificate {
  /// The encoding as it was signed.
  package var der: [UInt8] { encoded { i2d_X509(handle, $0) } ?? [] }
  /// nginx's $ssl_client_raw_cert: PEM with its last line feed.
  package var pem: String { MemoryBIO.text { PEM_write_bio_X509($0, handle) } }

  package var subject: DistinguishedName { DistinguishedName(of: self, .subject) }
  package var issuer: DistinguishedName { DistinguishedName(of: self, .issuer) }
  /// Issuer and subject are the same name. It does not say that the signature is its own.
  package var isSelfIssued: Bool {
    X509_NAME_cmp(X509_get_issuer_name(handle), X509_get_subject_name(handle)) == 0
  }

  /// Names and key identifiers say that this one issued the other. Its signature is for verification to check.
  package func issued(_ other: Certificate) -> Bool { X509_check_issued(handle, other.handle) == X509_V_OK }

  /// nginx's $ssl_client_serial: upper-case hexadecimal octets, `-` before a negative one.
  package var serial: String { Self.hexadecimal(X509_get0_serialNumber(handle)) ?? "" }

  /// Upper-case hexadecimal octets, `-` before a negative number; nil for none.
  static func hexadecimal(_ number: UnsafePointer<ASN1_INTEGER>?) -> String? {
    guard let number = number?.pointee else { return nil }
    let octets = Array(UnsafeBufferPointer(start: number.data, count: Int(max(0, number.length))))
    let sign = number.type & V_ASN1_NEG != 0 ? "-" : ""
    return sign + (octets.isEmpty ? "00" : Hex.encode(octets, .upper))
  }

  /// nginx's $ssl_client_fingerprint: SHA-1 in lower-case hexadecimal.
  package var sha1Fingerprint: String { Hex.encode(digest(EVP_sha1())) }
  /// 32 octets over the whole certificate.
  package var sha256: [UInt8] { digest(EVP_sha256()) }
  /// 32 octets over the SubjectPublicKeyInfo: what a pin names.
  package var spkiSHA256: [UInt8] { publicKey.sha256 }
  package var publicKey: PublicKey {
    PublicKey(ofSubjectPublicKeyInfo: encoded { i2d_X509_PUBKEY(X509_get_X509_PUBKEY(handle), $0) } ?? [])
  }

  private func digest(_ algorithm: OpaquePointer?) -> [UInt8] {
    Digest.collect { X509_digest(handle, algorithm, $0, $1) }
  }
}

extension Certificate: Hashable {
  /// The same encoding, byte for byte.
  public static func == (left: Certificate, right: Certificate) -> Bool {
    left.handle == right.handle || left.der == right.der
  }

  public func hash(into hasher: inout Hasher) { hasher.combine(sha256) }
}
