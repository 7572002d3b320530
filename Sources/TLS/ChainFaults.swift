import COpenSSL

/// What is wrong with a client's chain under `optional_no_ca`, which excuses that it leads to no anchor and nothing else.
///
/// OpenSSL stops at the first fault unless its callback says go on, and the missing anchor comes first: before dates,
/// usage and strength of keys. Stopping there would excuse what was never looked at.
struct ChainFaults {
  /// X509_V_ERR_…: the first fault that is not excused.
  private var inexcusable: Int32?

  mutating func note(_ fault: Int32) {
    if inexcusable == nil && !Self.excuses(fault) { inexcusable = fault }
  }

  /// The code to judge by, after a walk that ended with `result` and left `last` as the last fault.
  func verdict(result: Int32, last: Int32) -> Int32 {
    if let inexcusable { return inexcusable }
    if result == 1 { return last }
    // The walk broke off: what was not looked at is not excused, whatever the fault before it.
    return last == X509_V_OK || Self.excuses(last) ? X509_V_ERR_UNSPECIFIED : last
  }

  /// The faults that nginx excuses (ngx_ssl_verify_error_optional): no chain to an anchor.
  static func excuses(_ fault: Int32) -> Bool {
    switch fault {
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN,
      X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE,
      X509_V_ERR_CERT_UNTRUSTED:
      true
    default: false
    }
  }
}
