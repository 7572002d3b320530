import COpenSSL
import Crypto
import Glibc

/// One walk of OpenSSL's from an upstream's leaf to anchors. Looks, and decides nothing.
struct ChainVerification {
  /// How many certificates may stand between leaf and anchor.
  var depth: Int
  /// What keys and signatures must be worth; see ContextBasics.chainLevel.
  var level: Int32

  /// `sent`: what came with the leaf (STACK_OF(X509)); links may be taken from it, trust never is.
  /// `partial`: the anchors are pinned certificates, at any of which a chain may end; otherwise it must end at a self-signed one.
  func find(
    leaf: OpaquePointer, sent: OpaquePointer?, anchors: TrustAnchors, partial: Bool
  ) -> ChainFinding {
    guard let store = X509_STORE_CTX_new() else { return .faulty(ChainFault(code: X509_V_ERR_OUT_OF_MEM)) }
    defer { X509_STORE_CTX_free(store) }
    guard X509_STORE_CTX_init(store, anchors.handle, leaf, sent) == 1 else {
      return .faulty(ChainFault(kind: .other, text: OpenSSLReasons.take()))
    }
    X509_STORE_CTX_set_default(store, "ssl_server")
    X509_STORE_CTX_set_depth(store, Int32(truncatingIfNeeded: depth))
    X509_VERIFY_PARAM_set_auth_level(X509_STORE_CTX_get0_param(store), level)
    if partial { X509_STORE_CTX_set_flags(store, UInt(X509_V_FLAG_PARTIAL_CHAIN)) }
    var walk = Walk()
    let result = withUnsafeMutablePointer(to: &walk) { walk in
      X509_STORE_CTX_set_ex_data(store, Self.walkIndex, walk)
      X509_STORE_CTX_set_verify_cb(store, Self.note)
      return X509_verify_cert(store)
    }
    if let fault = walk.fault { return .faulty(fault) }
    // A walk that broke off without a word must not look like success.
    guard result == 1, let chain = VerifiedChain(X509_STORE_CTX_get0_chain(store)) else {
      let code = X509_STORE_CTX_get_error(store)
      return .faulty(ChainFault(code: code == X509_V_OK ? X509_V_ERR_UNSPECIFIED : code))
    }
    guard !anchors.endedListRevokes([chain.leaf] + chain.others, now: Int64(time(nil))) else {
      return .faulty(ChainFault(code: X509_V_ERR_CERT_REVOKED))
    }
    return .verified(chain)
  }

  /// Past each fault to the next: a revocation may stand behind others, and nothing excuses it.
  private struct Walk {
    var fault: ChainFault?

    mutating func note(_ code: Int32) {
      let new = ChainFault(code: code)
      if fault == nil || (new.kind == .revoked && fault?.kind != .revoked) { fault = new }
    }
  }

  /// X509_STORE_CTX_set_app_data's.
  private static let walkIndex: Int32 = 0

  private static let note: @convention(c) (Int32, OpaquePointer?) -> Int32 = { isFine, store in
    guard let store, let data = X509_STORE_CTX_get_ex_data(store, walkIndex) else { return 0 }
    if isFine == 0 { data.assumingMemoryBound(to: Walk.self).pointee.note(X509_STORE_CTX_get_error(store)) }
    return 1
  }
}

extension ChainFault {
  init(code: Int32) {
    kind = Kind(code: code)
    text = "\(code):\(String(cString: X509_verify_cert_error_string(Int(code))))"
  }
}

extension ChainFault.Kind {
  init(code: Int32) {
    switch code {
    case X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_CERT_NOT_YET_VALID: self = .expired
    // A CRL that is asked for and can't be had or believed says nothing, which is not that nobody was revoked.
    case X509_V_ERR_CERT_REVOKED, X509_V_ERR_UNABLE_TO_GET_CRL, X509_V_ERR_UNABLE_TO_DECRYPT_CRL_SIGNATURE,
      X509_V_ERR_CRL_SIGNATURE_FAILURE, X509_V_ERR_CRL_NOT_YET_VALID, X509_V_ERR_CRL_HAS_EXPIRED,
      X509_V_ERR_ERROR_IN_CRL_LAST_UPDATE_FIELD, X509_V_ERR_ERROR_IN_CRL_NEXT_UPDATE_FIELD,
      X509_V_ERR_UNABLE_TO_GET_CRL_ISSUER, X509_V_ERR_KEYUSAGE_NO_CRL_SIGN,
      X509_V_ERR_UNHANDLED_CRITICAL_CRL_EXTENSION, X509_V_ERR_DIFFERENT_CRL_SCOPE, X509_V_ERR_CRL_PATH_VALIDATION_ERROR:
      self = .revoked
    default: self = ChainFaults.excuses(code) ? .unanchored : .other
    }
  }
}
