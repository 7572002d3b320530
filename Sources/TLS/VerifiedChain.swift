import COpenSSL
public import Crypto

/// A chain that verified against trust anchors, leaf first, anchor last. Only verification makes one.
public struct VerifiedChain: Sendable {
  public let leaf: Certificate
  public let others: [Certificate]
}

extension VerifiedChain {
  /// Makes a chain that was never verified, for fuzzing and for tests of code that describes a chain. Sources never
  /// call this (Tests/HouseTests).
  package init(unjudged leaf: Certificate, others: [Certificate] = []) { self.init(leaf: leaf, others: others) }

  /// Returns nil for an empty chain.
  init?(_ stack: OpaquePointer?) {
    let certificates = (0..<copenssl_sk_X509_num(stack)).compactMap { index in
      copenssl_sk_X509_value(stack, index).map { Certificate(retaining: $0) }
    }
    guard let leaf = certificates.first else { return nil }
    self.init(leaf: leaf, others: Array(certificates.dropFirst()))
  }
}

/// The judgement of a client's certificate. The caller decides what follows: 400, 403, or access.
public enum ClientVerdict: Sendable {
  /// The server requested no certificate, or the client sent none.
  case absent
  case verified(VerifiedChain)
  /// A pin alone vouches for the certificate's key. Nothing else that the certificate says is known to be true.
  case pinned(Certificate)
  /// `optional_no_ca`: the chain leads to no anchor, and the mode requires none. The leaf proves only possession of its
  /// key.
  case unverified(Certificate, reason: String)
  /// `culprit`: the certificate of the chain that is at fault; nil for the client's own, or if none is.
  case refused(Certificate, code: Int, reason: String, culprit: ChainCulprit? = nil)

  public var certificate: Certificate? {
    switch self {
    case .absent: nil
    case .verified(let chain): chain.leaf
    case .pinned(let leaf), .unverified(let leaf, _), .refused(let leaf, _, _, _): leaf
    }
  }

  /// Whether the client's certificate counts, by a chain or by a pin.
  public var isVerified: Bool {
    switch self {
    case .verified, .pinned: true
    case .absent, .unverified, .refused: false
    }
  }

  /// By what the client's certificate counts; nil if by nothing.
  var client: VerifiedClient? {
    switch self {
    case .verified(let chain): .chain(chain)
    case .pinned(let leaf): .pin(leaf)
    case .absent, .unverified, .refused: nil
    }
  }

  /// `code`: OpenSSL's result, X509_V_….
  init(
    of leaf: Certificate, code: Int, mode: ClientVerification, client: VerifiedClient?, fault: String? = nil,
    culprit: ChainCulprit? = nil
  ) {
    var code = code
    // OpenSSL reports success but nothing verified the client: this must not look like success.
    if code == Int(X509_V_OK) && client == nil { code = Int(X509_V_ERR_UNSPECIFIED) }
    let reason =
      fault
      ?? (code == Int(ClientPins.mismatch)
        ? "certificate matches no pin" : String(cString: X509_verify_cert_error_string(code)))
    if code == Int(X509_V_OK), let client {
      switch client {
      case .chain(let chain): self = .verified(chain)
      case .pin(let leaf): self = .pinned(leaf)
      }
    } else if mode == .optionalNoCA && ChainFaults.excuses(Int32(truncatingIfNeeded: code)) {
      self = .unverified(leaf, reason: reason)
    } else {
      self = .refused(
        leaf, code: code, reason: reason, culprit: culprit.flatMap { Int($0.code) == code ? $0 : nil })
    }
  }

  /// The verdict on a client whose chain was verified without these CRLs, if one of them revokes a certificate of the chain;
  /// nil if none does. A CRL that has expired still tells what its issuer has revoked, and one from the future doesn't count
  /// yet. `now`: seconds since 1970.
  package func revoked(by lists: [RevocationList], at now: Int64) -> ClientVerdict? {
    guard case .verified(let chain) = self,
      lists.contains(where: { $0.thisUpdate <= now && $0.revokes(anyOf: [chain.leaf] + chain.others) })
    else { return nil }
    let code = X509_V_ERR_CERT_REVOKED
    return .refused(
      chain.leaf, code: Int(code), reason: String(cString: X509_verify_cert_error_string(Int(code))))
  }
}
