import COpenSSL
public import Crypto

/// A chain that verified against trust anchors, leaf first, anchor last. Made only here, by verification.
public struct VerifiedChain: Sendable {
  public let leaf: Certificate
  public let others: [Certificate]

  /// nil for an empty chain.
  init?(_ stack: OpaquePointer?) {
    let certificates = (0..<copenssl_sk_X509_num(stack)).compactMap { index in
      copenssl_sk_X509_value(stack, index).map { Certificate(retaining: $0) }
    }
    guard let leaf = certificates.first else { return nil }
    self.leaf = leaf
    self.others = Array(certificates.dropFirst())
  }

  /// A session that is resumed keeps the leaf; that its chain verified is part of the session.
  init(resumed leaf: Certificate) {
    self.leaf = leaf
    self.others = []
  }
}

/// How a client's certificate was judged. What follows from it (400, 403, let in) is not decided here.
public enum ClientVerdict: Sendable {
  /// None was asked for, or none was sent.
  case absent
  case verified(VerifiedChain)
  /// `optional_no_ca`: no chain to an anchor, and none was demanded. The leaf proves only that its key was at hand.
  case unverified(Certificate, reason: String)
  case refused(Certificate, code: Int, reason: String)

  public var certificate: Certificate? {
    switch self {
    case .absent: nil
    case .verified(let chain): chain.leaf
    case .unverified(let leaf, _), .refused(let leaf, _, _): leaf
    }
  }

  init(ssl: OpaquePointer, mode: ClientVerification, chain: VerifiedChain?) {
    guard mode != .off, let peer = copenssl_get0_peer_certificate(ssl) else {
      self = .absent
      return
    }
    let leaf = Certificate(retaining: peer)
    let code = SSL_get_verify_result(ssl)
    let reason = String(cString: X509_verify_cert_error_string(code))
    if code == Int(X509_V_OK) {
      self = .verified(chain ?? VerifiedChain(resumed: leaf))
    } else if mode == .optionalNoCA && ChainFaults.excuses(Int32(truncatingIfNeeded: code)) {
      self = .unverified(leaf, reason: reason)
    } else {
      self = .refused(leaf, code: code, reason: reason)
    }
  }
}
