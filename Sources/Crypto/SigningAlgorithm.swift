import COpenSSL

/// The algorithm of a signature on a certificate, request or revocation list.
package struct SigningAlgorithm: Sendable, Hashable, CustomStringConvertible {
  private let identifier: CInt

  init(_ identifier: CInt) { self.identifier = identifier }

  /// OpenSSL's name, such as `ecdsa-with-SHA256`.
  package var description: String {
    guard identifier != NID_undef, let name = OBJ_nid2sn(identifier) else { return "unknown" }
    return String(cString: name)
  }

  /// Whether its hash has collisions that attackers can compute: MD5, SHA-1 and older. A signature on one text is then
  /// good for another.
  package var isWeak: Bool {
    var (digest, key) = (NID_undef, NID_undef)
    guard OBJ_find_sigid_algs(identifier, &digest, &key) == 1 else { return false }
    return [NID_md2, NID_md4, NID_md5, NID_sha1, NID_mdc2, NID_ripemd160].contains(digest)
  }
}

extension Certificate {
  package var signatureAlgorithm: SigningAlgorithm { SigningAlgorithm(X509_get_signature_nid(handle)) }
}

extension RevocationList {
  package var signatureAlgorithm: SigningAlgorithm { SigningAlgorithm(X509_CRL_get_signature_nid(handle)) }
}
