import COpenSSL

/// Collects the faults of a client's chain under `optional_no_ca`, which excuses only that the chain leads to no trust
/// anchor.
///
/// OpenSSL stops at the first fault unless its verify callback continues. It finds a missing anchor before it checks
/// dates, key usage and key strength. If verification stopped there, faults that nobody had checked for would be
/// excused.
struct ChainFaults {
  /// The first fault that `optional_no_ca` does not excuse, as X509_V_ERR_….
  private var inexcusable: Int32?
  /// The last fault that `optional_no_ca` excuses; X509_V_OK without one.
  private(set) var lastExcused = X509_V_OK
  /// Whether a CRL that is needed was missing, and the verification went on past that.
  private(set) var lacksList = false
  /// The certificate whose fault decides, if it isn't the client's own.
  private(set) var culprit: ChainCulprit?

  /// Whether the leaf's extendedKeyUsage doesn't allow clientAuth, and the verification went on past that. Whoever asks for
  /// the purpose refuses the client at the end.
  private(set) var lacksPurpose = false

  mutating func notePurpose() { lacksPurpose = true }

  /// Goes on past a missing CRL only: the list of a CA further up may say more, that this CA is revoked.
  mutating func goesOn(past fault: Int32, at certificate: @autoclosure () -> ChainCulprit? = nil) -> Bool {
    guard fault == X509_V_ERR_UNABLE_TO_GET_CRL else {
      culprit = certificate()
      return false
    }
    // The first one whose list is missing, unless another fault ends the search.
    if !lacksList { culprit = certificate() }
    lacksList = true
    return true
  }

  mutating func note(_ fault: Int32, at certificate: @autoclosure () -> ChainCulprit? = nil) {
    if Self.excuses(fault) {
      lastExcused = fault
    } else if inexcusable == nil {
      inexcusable = fault
      culprit = certificate()
    }
  }

  /// Returns the code that decides, after X509_verify_cert returned `result` with `last` as its last fault.
  func verdict(result: Int32, last: Int32) -> Int32 {
    if let inexcusable { return inexcusable }
    if result == 1 { return last }
    // Verification was aborted, so some checks did not run: an excusable last fault is not enough.
    return last == X509_V_OK || Self.excuses(last) ? X509_V_ERR_UNSPECIFIED : last
  }

  /// The faults that nginx excuses (ngx_ssl_verify_error_optional): the chain leads to no trust anchor.
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
