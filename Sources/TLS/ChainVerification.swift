import COpenSSL
import Crypto
import Glibc

/// Runs OpenSSL's chain verification once, from a peer's leaf to trust anchors. It reports and decides nothing.
struct ChainVerification {
  /// What the leaf is used for, which its extensions must allow.
  enum Use {
    case upstream
    case client(ClientPurpose)
    /// Either of both: what the SPIFFE agent gives the process itself.
    case any

    /// OpenSSL's name of the purpose; nil: none is judged.
    fileprivate var name: String? {
      switch self {
      case .any: nil
      case .upstream: "ssl_server"
      case .client: "ssl_client"
      }
    }
  }

  /// The largest number of certificates between leaf and anchor.
  var depth: Int
  /// The security level that keys and signatures must have; see ContextBasics.chainLevel.
  var level: Int32
  var use = Use.upstream
  var ignoresTime = false
  /// When to verify, in seconds since 1970; nil: now.
  var moment: Int64?

  /// `sent`: the certificates that came with the leaf (STACK_OF(X509)). They may serve as intermediates, never as
  /// anchors. `partial`: the anchors are pinned certificates, and a chain may end at any of them. Otherwise it must end
  /// at a self-signed one.
  func find(
    leaf: OpaquePointer, sent: OpaquePointer?, anchors: TrustAnchors, partial: Bool
  ) -> ChainFinding {
    guard let store = X509_STORE_CTX_new() else { return .faulty(ChainError(code: X509_V_ERR_OUT_OF_MEM)) }
    defer { X509_STORE_CTX_free(store) }
    guard X509_STORE_CTX_init(store, anchors.handle, leaf, sent) == 1 else {
      return .faulty(ChainError(kind: .other, text: OpenSSLReasons.words()))
    }
    if let name = use.name { X509_STORE_CTX_set_default(store, name) }
    if let moment { X509_VERIFY_PARAM_set_time(X509_STORE_CTX_get0_param(store), Int(moment)) }
    if ignoresTime { X509_STORE_CTX_set_flags(store, UInt(X509_V_FLAG_NO_CHECK_TIME)) }
    X509_STORE_CTX_set_depth(store, Int32(truncatingIfNeeded: depth))
    X509_VERIFY_PARAM_set_auth_level(X509_STORE_CTX_get0_param(store), level)
    if partial { X509_STORE_CTX_set_flags(store, UInt(X509_V_FLAG_PARTIAL_CHAIN)) }
    var walk = Walk(use: use)
    let result = withUnsafeMutablePointer(to: &walk) { walk in
      X509_STORE_CTX_set_ex_data(store, Self.walkIndex, walk)
      X509_STORE_CTX_set_verify_cb(store, Self.note)
      return X509_verify_cert(store)
    }
    if let fault = walk.fault { return .faulty(fault) }
    // A verification that was aborted without an error code must not look like success.
    guard result == 1, let chain = VerifiedChain(X509_STORE_CTX_get0_chain(store)) else {
      let code = X509_STORE_CTX_get_error(store)
      return .faulty(ChainError(code: code == X509_V_OK ? X509_V_ERR_UNSPECIFIED : code))
    }
    guard !anchors.endedListRevokes([chain.leaf] + chain.others, now: moment ?? Int64(time(nil))) else {
      return .faulty(ChainError(code: X509_V_ERR_CERT_REVOKED))
    }
    return .verified(chain)
  }

  /// Continues past each fault: a revocation may come after other faults, and nothing excuses a revocation.
  private struct Walk {
    let use: Use
    var fault: ChainError?

    mutating func note(_ code: Int32) {
      let new = ChainError(code: code)
      if fault == nil || (new.kind == .revoked && fault?.kind != .revoked) { fault = new }
    }
  }

  /// The index that X509_STORE_CTX_set_app_data uses.
  private static let walkIndex: Int32 = 0

  private static let note: @convention(c) (Int32, OpaquePointer?) -> Int32 = { isFine, store in
    guard let store, let data = X509_STORE_CTX_get_ex_data(store, walkIndex) else { return 0 }
    guard isFine == 0 else { return 1 }
    let walk = data.assumingMemoryBound(to: Walk.self), fault = X509_STORE_CTX_get_error(store)
    if RevocationList.excusesRoot(fault, in: store) { return 1 }
    if case .client(let purpose) = walk.pointee.use, purpose.excuses(fault, in: store) { return 1 }
    walk.pointee.note(fault)
    return 1
  }
}

extension ChainError {
  init(code: Int32) {
    kind = Kind(code: code)
    self.code = code
    text = OpenSSLMeaning.text(verification: Int(code))
  }
}

extension ChainError.Kind {
  init(code: Int32) {
    switch code {
    case X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_CERT_NOT_YET_VALID: self = .expired
    // A CRL that is demanded but missing or invalid counts as a revocation: without it, nobody knows who was revoked.
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
