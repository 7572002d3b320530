import COpenSSL

extension RevocationList {
  /// The CRL number (RFC 5280 §5.2.3), of any length. A CA counts it up from CRL to CRL, so it says which CRL is newer
  /// even where both have the same thisUpdate.
  package struct Number: Sendable, Hashable, Comparable, CustomStringConvertible {
    enum Fault: Error { case absent, unreadable }

    /// Upper-case hexadecimal octets, without a leading 00.
    private let octets: String

    static func read(of list: OpaquePointer) -> Result<Number, Fault> {
      var critical: CInt = 0
      guard let raw = X509_CRL_get_ext_d2i(list, NID_crl_number, &critical, nil) else {
        OpenSSLError.discard()
        // -1: the CRL lacks the extension; -2: it has several; other values: the extension can't be read.
        return .failure(critical == -1 ? .absent : .unreadable)
      }
      defer { copenssl_integer_free(raw) }
      guard let octets = Certificate.hexadecimal(raw), !octets.hasPrefix("-") else { return .failure(.unreadable) }
      var digits = octets.utf8[...]
      while digits.starts(with: "00".utf8) { digits = digits.dropFirst(2) }
      return .success(Number(octets: String(Substring(digits))))
    }

    package static func < (one: Number, other: Number) -> Bool {
      (one.octets.utf8.count, one.octets) < (other.octets.utf8.count, other.octets)
    }

    /// nil beyond 63 bits.
    package var value: Int? { octets.isEmpty ? 0 : Int(octets, radix: 16) }
    package var description: String { value.map { "\($0)" } ?? "0x\(octets)" }
  }

  static func signingKey(of list: OpaquePointer) -> [UInt8]? {
    defer { OpenSSLError.discard() }
    guard let raw = X509_CRL_get_ext_d2i(list, NID_authority_key_identifier, nil, nil) else { return nil }
    let named = raw.assumingMemoryBound(to: AUTHORITY_KEYID.self)
    defer { AUTHORITY_KEYID_free(named) }
    guard let id = UnsafeRawPointer(named.pointee.keyid) else { return nil }
    return Array(UnsafeBufferPointer(start: copenssl_string_bytes(id), count: copenssl_string_count(id)))
  }

  /// Whether both CRLs have a number of the same CA and key, and this one's is greater. CRLs of two keys of one CA (while
  /// it changes its key) stand beside each other: each speaks for the certificates of its key.
  package func outnumbers(_ other: RevocationList) -> Bool {
    guard let number, let less = other.number, less < number, isOfIssuer(of: other) else { return false }
    return signingKey == nil || other.signingKey == nil || signingKey == other.signingKey
  }

  /// Whether this CRL, of the same issuer, may take the other one's place. The numbers decide where both have one, and
  /// else thisUpdate.
  private func isAsNew(as other: RevocationList) -> Bool {
    if outnumbers(other) { return true }
    return !other.outnumbers(self) && thisUpdate >= other.thisUpdate
  }

  /// Returns `fresh` together with the old CRLs that no fresh one may replace. Only a valid CRL of the same issuer that
  /// is not older replaces a CRL that is still valid. An expired CRL with the greatest number is kept too: whom it names
  /// stays refused.
  package static func taking(
    _ fresh: [RevocationList], after old: [RevocationList], now: Int64
  ) -> (lists: [RevocationList], kept: [RevocationList]) {
    let kept = old.filter { old in
      let successors = fresh.filter { $0.isOfIssuer(of: old) }
      guard !successors.isEmpty else { return false }
      if old.isExpired(at: now) { return successors.allSatisfy { old.outnumbers($0) } }
      return !successors.contains {
        $0.isAsNew(as: old) && $0.thisUpdate <= now + tolerance && !$0.isExpired(at: now)
      }
    }
    return (fresh + kept, kept)
  }

  /// The seconds by which an issuer's clock may be ahead.
  static let tolerance: Int64 = 300

  /// Returns the CRLs to verify by: without the valid ones that a valid one outnumbers. Of two valid CRLs OpenSSL uses the
  /// one with the later thisUpdate, whatever their numbers. An expired one stays: whom it names stays refused.
  package static func deciding(_ lists: [RevocationList], now: Int64) -> [RevocationList] {
    lists.filter { list in
      list.isExpired(at: now)
        || !lists.contains { $0.outnumbers(list) && $0.thisUpdate <= now && !$0.isExpired(at: now) }
    }
  }
}
