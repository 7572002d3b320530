import COpenSSL
import Glibc
import Synchronization

/// Chooses among several CRLs of one issuer's name, for an X509_STORE.
///
/// OpenSSL takes the one that was made last, unless both the CRL and the CA's certificate name the key. While a CA changes its key under
/// one name, that refuses every client of the other key. Here the signature decides: OpenSSL gets the CRLs that the key of
/// the chain's own CA has signed, and of those of one scope the one with the greatest number.
final class RevocationChoice: Sendable {
  private struct Signature: Hashable {
    let list: [UInt8], issuer: [UInt8]
  }

  private let lists: [RevocationList]
  /// Which certificate's key signed which CRL. An intermediate comes from the client, so there is a limit.
  private let known = Mutex<[Signature: Bool]>([:])
  private static let limit = 256

  private init(_ lists: [RevocationList]) { self.lists = lists }

  // The store's own reference goes with the store.
  private static let index = copenssl_store_index { _, choice, _, _, _, _ in
    if let choice { Unmanaged<RevocationChoice>.fromOpaque(choice).release() }
  }

  /// Has the store choose, if there is a choice. Returns false when memory is short.
  static func install(in store: OpaquePointer, _ lists: [RevocationList]) -> Bool {
    let several = lists.filter { list in lists.contains { $0 !== list && $0.isOfIssuer(of: list) } }
    guard !several.isEmpty else { return true }
    let choice = Unmanaged.passRetained(RevocationChoice(several))
    guard X509_STORE_set_ex_data(store, index, choice.toOpaque()) == 1 else {
      choice.release()
      return false
    }
    X509_STORE_set_lookup_crls(store) { context, name in
      guard let context, let found = X509_STORE_CTX_get1_crls(context, name) else { return nil }
      guard copenssl_sk_X509_CRL_num(found) > 1, let store = X509_STORE_CTX_get0_store(context),
        let data = X509_STORE_get_ex_data(store, RevocationChoice.index), let issuer = RevocationChoice.issuer(context)
      else { return found }
      Unmanaged<RevocationChoice>.fromOpaque(data)._withUnsafeGuaranteedRef { $0.reduce(found, issuer) }
      return found
    }
    return true
  }

  /// The certificate of the chain whose key has to have signed the CRL of the one that OpenSSL looks at.
  private static func issuer(_ context: OpaquePointer) -> Certificate? {
    let chain = X509_STORE_CTX_get0_chain(context)
    let last = copenssl_sk_X509_num(chain) - 1
    let place = min(X509_STORE_CTX_get_error_depth(context) + 1, last)
    return place < 0 ? nil : copenssl_sk_X509_value(chain, place).map { Certificate(retaining: $0) }
  }

  /// Removes the CRLs that are not for the certificates of this key. Leaves all if none is: OpenSSL then refuses the first.
  private func reduce(_ found: OpaquePointer, _ issuer: Certificate) {
    let owned = lists.filter { list in
      (0..<copenssl_sk_X509_CRL_num(found)).contains { copenssl_sk_X509_CRL_value(found, $0) == list.handle }
        && isSigned(list, by: issuer)
    }
    guard !owned.isEmpty else { return }
    let deciding = RevocationList.deciding(ofOneKey: owned, now: Int64(time(nil)))
    for index in (0..<copenssl_sk_X509_CRL_num(found)).reversed()
    where !deciding.contains(where: { $0.handle == copenssl_sk_X509_CRL_value(found, index) }) {
      copenssl_sk_X509_CRL_remove(found, index)
    }
  }

  private func isSigned(_ list: RevocationList, by issuer: Certificate) -> Bool {
    let signature = Signature(list: list.sha256, issuer: issuer.sha256)
    if let known = known.withLock({ $0[signature] }) { return known }
    let answer = list.isSigned(by: issuer)
    known.withLock { known in
      if known.count >= Self.limit { known.removeAll(keepingCapacity: true) }
      known[signature] = answer
    }
    return answer
  }
}
