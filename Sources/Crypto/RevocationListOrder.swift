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

  /// Whether the same key signed both CRLs; nil if nobody can tell. Their signatures decide, as far as the CAs are known
  /// that may have made them, and else the key identifiers, which a CRL need not have.
  private func sharesKey(with other: RevocationList, among authorities: [Certificate]) -> Bool? {
    switch (signer(among: authorities), other.signer(among: authorities)) {
    case (let one?, let another?): return one.spkiSHA256 == another.spkiSHA256
    case (nil, nil):
      guard let signingKey, let key = other.signingKey else { return nil }
      return signingKey == key
    default: return false
    }
  }

  /// Whether both CRLs number the same certificates: those of one CA, one key and one scope. CRLs of two keys of one CA
  /// (while it changes its key), and those of two scopes, stand beside each other: each speaks for its own certificates. nil
  /// if nobody can tell.
  private func isOfSeries(of other: RevocationList, among authorities: [Certificate]) -> Bool? {
    guard isOfIssuer(of: other), scope == other.scope else { return false }
    return sharesKey(with: other, among: authorities)
  }

  private func hasGreaterNumber(than other: RevocationList) -> Bool {
    guard let number, let less = other.number else { return false }
    return less < number
  }

  /// Whether both CRLs have a number of the same series, and this one's is greater. `authorities`: CAs that may have signed
  /// them.
  package func outnumbers(_ other: RevocationList, among authorities: [Certificate]) -> Bool {
    hasGreaterNumber(than: other) && isOfSeries(of: other, among: authorities) == true
  }

  /// The same where nobody can tell who signed them: in doubt an old CRL stays beside the new one.
  package func mayOutnumber(_ other: RevocationList, among authorities: [Certificate]) -> Bool {
    hasGreaterNumber(than: other) && isOfSeries(of: other, among: authorities) != false
  }

  /// Whether this CRL, of the same series, may take the other one's place. The numbers decide where both have one, and
  /// else thisUpdate.
  private func isAsNew(as other: RevocationList, among authorities: [Certificate]) -> Bool {
    if outnumbers(other, among: authorities) { return true }
    return !other.mayOutnumber(self, among: authorities) && thisUpdate >= other.thisUpdate
  }

  /// Whether this CRL would undo what another valid CRL of the CA says, of another key or scope, that was made later.
  package func isBehind(_ other: RevocationList, among authorities: [Certificate], now: Int64) -> Bool {
    isOfIssuer(of: other) && isOfSeries(of: other, among: authorities) == false && !other.isExpired(at: now)
      && thisUpdate < other.thisUpdate
  }

  /// Returns `fresh` together with the old CRLs that no fresh one may replace. Only a valid CRL of the same series that
  /// is not older replaces a CRL that is still valid. An expired CRL with the greatest number is kept too: whom it names
  /// stays refused. `authorities`: CAs that may have signed them.
  package static func taking(
    _ fresh: [RevocationList], after old: [RevocationList], among authorities: [Certificate], now: Int64
  ) -> (lists: [RevocationList], kept: [RevocationList]) {
    let kept = old.filter { old in
      let successors = fresh.filter { $0.isOfSeries(of: old, among: authorities) != false }
      guard !successors.isEmpty else { return false }
      if old.isExpired(at: now) { return successors.allSatisfy { old.mayOutnumber($0, among: authorities) } }
      return !successors.contains {
        $0.isAsNew(as: old, among: authorities) && $0.thisUpdate <= now + tolerance && !$0.isExpired(at: now)
      }
    }
    return (fresh + kept, kept)
  }

  /// The seconds by which an issuer's clock may be ahead.
  static let tolerance: Int64 = 300

  /// Returns the CRLs to verify by: without the valid ones that a valid one outnumbers. Of two valid CRLs OpenSSL uses the
  /// one with the later thisUpdate, whatever their numbers. An expired one stays: whom it names stays refused.
  /// `authorities`: CAs that may have signed them.
  package static func deciding(
    _ lists: [RevocationList], among authorities: [Certificate], now: Int64
  ) -> [RevocationList] {
    lists.filter { list in
      list.isExpired(at: now)
        || !lists.contains {
          $0.thisUpdate <= now && !$0.isExpired(at: now) && $0.outnumbers(list, among: authorities)
        }
    }
  }

  /// The same for CRLs that one key has signed.
  static func deciding(ofOneKey lists: [RevocationList], now: Int64) -> [RevocationList] {
    lists.filter { list in
      list.isExpired(at: now)
        || !lists.contains {
          $0.hasGreaterNumber(than: list) && $0.scope == list.scope && $0.thisUpdate <= now
            && !$0.isExpired(at: now)
        }
    }
  }
}
