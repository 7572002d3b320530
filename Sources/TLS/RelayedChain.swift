import COpenSSL
package import Crypto
import Glibc

/// Certificates that no handshake of this process has seen: a trusted front has sent them in a field
/// (`real_client_cert_header`).
extension ServerTLSContext {
  /// The chain that `judge` has verified under this digest, and when it must be verified again; nil if it must be now.
  /// `now` and `end`: seconds since 1970.
  ///
  /// What holds of `VerifiedChainCache` holds here: a reload, a changed CA, list or setting makes a new context, and an
  /// entry ends with the first certificate of its chain, with the first CRL, and after ten minutes.
  package func knownChain(_ digest: [UInt8], at now: Int64) -> (chain: VerifiedChain, end: Int64)? {
    relayedChains.find(VerifiedChainCache.Key(digest: digest), now: now).map { ($0.chain, $0.end) }
  }

  /// Judges a client's certificates as a handshake with this server block would: by its CAs, CRLs and depth. Nobody has
  /// proved to this process that the client has the key: the front did that, so call this for a trusted front only.
  ///
  /// Asks no OCSP responder, and judges no access rules. `certificates`: leaf first, as the front sent them. `digest`: the
  /// SHA-256 of what they were read from, to remember the chain; nil: it isn't remembered.
  package func judge(_ certificates: [Certificate], from digest: [UInt8]? = nil, at now: Int64) -> ClientVerdict {
    guard let leaf = certificates.first, settings.verification != .off else { return .absent }
    // No pin vouches for a key whose proof sallyport hasn't seen, and bundles judge handshakes only. The configuration has
    // no such server block.
    guard pins == nil, bundles == nil else {
      return .refused(leaf, code: Int(ClientPins.mismatch), reason: "a front's field is judged by CAs of files only")
    }
    let (chain, code) = searchChain(of: leaf, sent: Array(certificates.dropFirst()))
    if code == X509_V_OK, let chain, let digest {
      relayedChains.keep(
        chain, for: VerifiedChainCache.Key(digest: digest), judgementEnd: judgementEnd(of: now), now: now)
    }
    return ClientVerdict(of: leaf, code: Int(code), mode: settings.verification, client: chain.map { .chain($0) })
  }

  /// Returns the chain if it is verified, and the code, X509_V_….
  private func searchChain(of leaf: Certificate, sent: [Certificate]) -> (VerifiedChain?, Int32) {
    guard let store = X509_STORE_CTX_new() else { return (nil, X509_V_ERR_OUT_OF_MEM) }
    let stack = copenssl_sk_X509_new()
    defer {
      X509_STORE_CTX_free(store)
      // Only the stack: the certificates are borrowed, and outlive the search.
      copenssl_sk_X509_free(stack)
      ERR_clear_error()
    }
    for certificate in sent {
      guard copenssl_sk_X509_push(stack, certificate.handle) > 0 else { return (nil, X509_V_ERR_OUT_OF_MEM) }
    }
    guard X509_STORE_CTX_init(store, verificationStore, leaf.handle, stack) == 1,
      X509_STORE_CTX_set_default(store, "ssl_client") == 1
    else { return (nil, X509_V_ERR_UNSPECIFIED) }
    X509_STORE_CTX_set_depth(store, Int32(truncatingIfNeeded: settings.verifyDepth))
    X509_VERIFY_PARAM_set_auth_level(X509_STORE_CTX_get0_param(store), chainLevel)
    var faults = ChainFaults()
    let chain = withExtendedLifetime((leaf, sent)) {
      withUnsafeMutablePointer(to: &faults) { faults in
        X509_STORE_CTX_set_ex_data(store, Self.faultsIndex, faults)
        X509_STORE_CTX_set_verify_cb(store, Self.walkPastMissingList)
        let result = X509_verify_cert(store)
        return settle(store, result: result, faults.pointee).verified
      }
    }
    return (chain, X509_STORE_CTX_get_error(store))
  }

  /// The index that X509_STORE_CTX_set_app_data uses.
  private static let faultsIndex: Int32 = 0

  /// Continues past a missing CRL, as in a handshake.
  private static let walkPastMissingList: @convention(c) (Int32, OpaquePointer?) -> Int32 = { isFine, store in
    guard isFine == 0 else { return 1 }
    guard let store, let data = X509_STORE_CTX_get_ex_data(store, faultsIndex) else { return 0 }
    let faults = data.assumingMemoryBound(to: ChainFaults.self)
    return faults.pointee.goesOn(past: X509_STORE_CTX_get_error(store)) ? 1 : 0
  }
}
