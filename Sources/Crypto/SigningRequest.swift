package import Bytes
import COpenSSL

/// A certificate signing request (PKCS#10, RFC 2986), parsed but not verified: anybody may have written any name in it.
// @unchecked: nothing changes the X509_REQ through the handle after `init`.
package final class SigningRequest: @unchecked Sendable {
  /// X509_REQ*, borrowed.
  private let handle: OpaquePointer

  /// Parses exactly one DER request, without a byte after it.
  package init(der: UnsafeRawBufferPointer) throws(CryptoError) {
    guard let handle = decoded(der, free: X509_REQ_free, { d2i_X509_REQ(nil, $0, $1) }) else {
      throw .malformed("not a DER signing request (\(OpenSSLError.drain()))")
    }
    self.handle = handle
  }

  deinit { X509_REQ_free(handle) }

  /// The SubjectPublicKeyInfo; empty for a key that OpenSSL can't read.
  package var publicKey: PublicKey {
    defer { OpenSSLError.discard() }
    return PublicKey(
      ofSubjectPublicKeyInfo: X509_REQ_get0_pubkey(handle).flatMap { key in encoded { i2d_PUBKEY(key, $0) } } ?? [])
  }

  package var keyKind: KeyKind {
    defer { OpenSSLError.discard() }
    return KeyKind(X509_REQ_get0_pubkey(handle), encoding: X509_REQ_get_X509_PUBKEY(handle))
  }

  package var signatureAlgorithm: SigningAlgorithm { SigningAlgorithm(X509_REQ_get_signature_nid(handle)) }

  /// Whether the private key of `publicKey` signed the request: who asks has the key (RFC 2986 §3).
  package var isSigned: Bool {
    defer { OpenSSLError.discard() }
    guard let key = X509_REQ_get0_pubkey(handle) else { return false }
    return X509_REQ_verify(handle, key) == 1
  }

  /// RFC 2253, the last component first. Control characters are escaped.
  package var subject: String { DistinguishedName.rfc2253(X509_REQ_get_subject_name(handle)) }
  package var commonName: CommonNameReading {
    CommonNameReading(DistinguishedName.values(NID_commonName, of: X509_REQ_get_subject_name(handle)))
  }
  /// The number of attributes of the subject, of any kind.
  package var subjectCount: Int { Int(max(0, X509_REQ_get_subject_name(handle).map(X509_NAME_entry_count) ?? 0)) }

  /// The alternative names that the request asks for.
  package struct AlternativeNames: Sendable, Hashable {
    package let names: [SubjectAlternativeName]
    /// How many names are of kinds that sallyport does not read.
    package let others: Int
    /// The request has the extension twice, or in a form that can't be read.
    package let isMalformed: Bool
  }

  package var alternativeNames: AlternativeNames {
    withExtensions { extensions in
      var critical: CInt = -1
      guard let value = copenssl_extension_value(extensions, NID_subject_alt_name, &critical) else {
        return AlternativeNames(names: [], others: 0, isMalformed: critical != -1)
      }
      let names = OpaquePointer(value)
      defer { GENERAL_NAMES_free(names) }
      let found = SubjectAlternativeName.all(of: names)
      return AlternativeNames(names: found.names, others: found.others, isMalformed: false)
    }
  }

  /// The names of the other extensions that the request asks for, such as `basicConstraints`. The authority copies none
  /// of them.
  package var otherExtensions: [String] {
    withExtensions { extensions in
      (0..<copenssl_sk_X509_EXTENSION_num(extensions)).compactMap { index in
        guard let entry = copenssl_sk_X509_EXTENSION_value(extensions, index),
          let object = X509_EXTENSION_get_object(entry)
        else { return nil }
        let identifier = OBJ_obj2nid(object)
        guard identifier != NID_subject_alt_name else { return nil }
        return identifier == NID_undef ? "an unknown extension" : String(cString: OBJ_nid2sn(identifier))
      }
    }
  }

  private func withExtensions<Result>(_ body: (OpaquePointer?) -> Result) -> Result {
    let extensions = X509_REQ_get_extensions(handle)
    defer {
      copenssl_sk_X509_EXTENSION_pop_free(extensions)
      OpenSSLError.discard()
    }
    return body(extensions)
  }
}

extension SigningRequest {
  static let labels = ["CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"]

  /// Loads the only request of a file, PEM or DER. Two requests in one file are an error: nobody could say which of
  /// them was meant. Blocks.
  package static func load(_ reference: MaterialReference) throws(MaterialError) -> SigningRequest {
    let bytes = try reference.read(expecting: .request)
    return try reference.parsing(.request) { () throws(CryptoError) in try parse(bytes) }
  }

  package static func parse(_ bytes: SecretBytes) throws(CryptoError) -> SigningRequest {
    try bytes.withUnsafeBytes { (raw) throws(CryptoError) in
      let sequence: UInt8 = 0x30
      if raw.first == sequence {
        if let request = try? SigningRequest(der: raw) { return request }
        OpenSSLError.discard()
      }
      let contents = try MaterialContents(bytes)
      guard case .pem(let blocks) = contents else {
        throw .absent("holds no signing request but \(contents.contentNames)")
      }
      guard let block = blocks.first, blocks.count == 1 else {
        throw .absent("holds \(blocks.count) objects (\(contents.contentNames)), not one signing request")
      }
      guard labels.contains(block.label) else {
        throw .absent("holds no signing request but \(contents.contentNames)")
      }
      return try block.contents.withUnsafeBytes { (der) throws(CryptoError) in try SigningRequest(der: der) }
    }
  }
}
