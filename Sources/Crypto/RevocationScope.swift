import COpenSSL

extension RevocationList {
  /// For which certificates of its issuer a CRL speaks (issuingDistributionPoint, RFC 5280 §5.2.5). OpenSSL compares it
  /// with each certificate (§6.3.3), and a certificate that no CRL covers is refused.
  package struct Scope: Sendable, Hashable {
    package enum Kind: Sendable, Hashable {
      case all
      /// onlyContainsUserCerts
      case leaves
      /// onlyContainsCACerts
      case authorities
    }

    struct Fault: Error { let description: String }

    package var kind = Kind.all
    /// The names of the distribution point, of which a certificate has to name one; nil: the CRL names no point.
    package var point: [String]?
    /// The extension's octets: equal for CRLs of which one can take the other's place. Empty without the extension.
    private var octets: [UInt8] = []

    /// Which certificates of the issuer the CRL covers, for people; nil: all of them.
    package var words: String? {
      let whom: String
      switch kind {
      case .all:
        if point == nil { return nil }
        whom = "certificates"
      case .leaves: whom = "certificates that are not of CAs"
      case .authorities: whom = "certificates of CAs"
      }
      return whom + (point.map { " that name the distribution point \($0.joined(separator: " or "))" } ?? "")
    }

    static func read(of list: OpaquePointer) -> Result<Scope, Fault> {
      defer { OpenSSLError.discard() }
      var critical: CInt = 0
      guard let raw = X509_CRL_get_ext_d2i(list, NID_issuing_distribution_point, &critical, nil) else {
        // -1: the CRL lacks the extension; -2: it has several; other values: the extension can't be read.
        return critical == -1
          ? .success(Scope()) : .failure(Fault(description: "a revocation list whose scope can't be read"))
      }
      let named = raw.assumingMemoryBound(to: ISSUING_DIST_POINT.self)
      defer { ISSUING_DIST_POINT_free(named) }
      if let fault = fault(of: named) { return .failure(Fault(description: fault)) }
      var scope = Scope()
      if copenssl_idp_is_of_leaves(named) != 0 { scope.kind = .leaves }
      if copenssl_idp_is_of_authorities(named) != 0 { scope.kind = .authorities }
      if copenssl_idp_has_point(named) != 0 {
        let (names, others) = SubjectAlternativeName.all(of: copenssl_idp_names(named))
        scope.point = names.map(\.description) + (names.isEmpty || others > 0 ? ["another kind of name"] : [])
      }
      let place = X509_CRL_get_ext_by_NID(list, NID_issuing_distribution_point, -1)
      if let value = UnsafeRawPointer(X509_EXTENSION_get_data(X509_CRL_get_ext(list, place))) {
        scope.octets = Array(
          UnsafeBufferPointer(start: copenssl_string_bytes(value), count: copenssl_string_count(value)))
      }
      return .success(scope)
    }

    private static func fault(of named: UnsafeMutablePointer<ISSUING_DIST_POINT>) -> String? {
      if copenssl_idp_is_indirect(named) != 0 {
        return "an indirect revocation list, which speaks for other CAs than its issuer"
      }
      if copenssl_idp_is_of_reasons(named) != 0 { return "a partial revocation list, for some reasons only" }
      if copenssl_idp_is_of_attributes(named) != 0 { return "a revocation list of attribute certificates" }
      if copenssl_idp_is_of_leaves(named) != 0, copenssl_idp_is_of_authorities(named) != 0 {
        return "a revocation list whose scope contradicts itself"
      }
      return nil
    }
  }

  /// Whether a fault of the walk along a chain is only that no CRL covers the root at its end, although there are CRLs of
  /// that CA. A path ends below its trust anchor (RFC 5280 §6.1), and no CRL with a URL of its own covers a root, which has no
  /// distribution point. The CAs between leaf and root must be covered.
  package static func excusesRoot(_ fault: Int32, in store: OpaquePointer) -> Bool {
    // OpenSSL says "no CRL" in the end, where the CRL that it took covers nothing.
    guard fault == X509_V_ERR_DIFFERENT_CRL_SCOPE || fault == X509_V_ERR_UNABLE_TO_GET_CRL,
      X509_STORE_CTX_get0_current_crl(store) != nil, let root = X509_STORE_CTX_get_current_cert(store)
    else { return false }
    let depth = X509_STORE_CTX_get_error_depth(store)
    return depth > 0 && depth == copenssl_sk_X509_num(X509_STORE_CTX_get0_chain(store)) - 1
      && X509_self_signed(root, 0) == 1
  }
}
