import COpenSSL
import Crypto
import Synchronization

/// The chains that one server context has verified, so that the next full handshake with the same certificates does not
/// verify them again: a quarter of a handshake's instructions.
///
/// Only OpenSSL's search for a chain is remembered, and only when it succeeded. What may differ between two handshakes is
/// judged in each: the proof of the key, OCSP, access rules. A context never changes, and each reload makes new ones; so no
/// CA, list, rule or setting can differ from what the chain was verified by, and no other server block sees the entry.
final class VerifiedChainCache: Sendable {
  /// Everything on which the search depends, beside the context and the time.
  struct Key: Hashable, Sendable {
    /// SHA-256 of the certificates that the client sent, the leaf first, each with its length.
    let digest: [UInt8]
    /// A listener's first context may set other flags than the one that the name chose.
    private let flags: UInt, depth: Int32, level: Int32
    private let store: UInt

    /// nil if the certificates can't be encoded.
    init?(_ context: OpaquePointer) {
      guard let leaf = X509_STORE_CTX_get0_cert(context), let parameters = X509_STORE_CTX_get0_param(context),
        let digest = Self.digest(leaf, X509_STORE_CTX_get0_untrusted(context))
      else { return nil }
      self.digest = digest
      flags = X509_VERIFY_PARAM_get_flags(parameters)
      depth = X509_VERIFY_PARAM_get_depth(parameters)
      level = X509_VERIFY_PARAM_get_auth_level(parameters)
      store = UInt(bitPattern: X509_STORE_CTX_get0_store(context))
    }

    /// For a cache of which every search has the same flags, depth, level and store. nil if the certificates can't be
    /// encoded.
    init?(leaf: OpaquePointer?, sent: OpaquePointer?) {
      guard let leaf, let digest = Self.digest(leaf, sent) else { return nil }
      self.init(digest: digest)
    }

    /// `digest`: 32 bytes. For such a cache.
    init(digest: [UInt8]) { (self.digest, flags, depth, level, store) = (digest, 0, 0, 0, 0) }

    private static func digest(_ leaf: OpaquePointer, _ others: OpaquePointer?) -> [UInt8]? {
      var bytes: [UInt8] = []
      let count = max(0, copenssl_sk_X509_num(others))
      for index in -1..<count {
        guard let certificate = index < 0 ? leaf : copenssl_sk_X509_value(others, index) else { return nil }
        let der = Certificate(retaining: certificate).der
        guard !der.isEmpty else { return nil }
        withUnsafeBytes(of: der.count.bigEndian) { bytes += $0 }
        bytes += der
      }
      let digest = Digest.of(bytes)
      return digest.count == 32 ? digest : nil
    }
  }

  private struct Entry: Sendable {
    var chain: VerifiedChain
    var sent: SharedCertificates
    /// Seconds since 1970: a clock that was set back may be before a certificate's validity.
    var verifiedAt: Int64
    /// The first moment at which a certificate of the chain or a list has ended, or another list or CA has begun.
    var end: Int64
  }

  /// Entries; each has the certificates of one client, some 6 KiB.
  private static let limit = 1024
  /// Seconds after which a chain is verified again in any case.
  static let longest: Int64 = 600

  private struct State: Sendable {
    var entries = RecentlyUsed<Key, Entry>(limit: VerifiedChainCache.limit, inactive: .max)
    var found = 0
  }

  private let state = Mutex(State())

  /// How many searches a kept chain has spared, for tests.
  var found: Int { state.withLock { $0.found } }
  var count: Int { state.withLock { $0.entries.count } }

  /// A chain that was found. `end`: when it must be verified again, in seconds since 1970.
  typealias Kept = (chain: VerifiedChain, sent: SharedCertificates, end: Int64)

  /// `now`: seconds since 1970.
  func find(_ key: Key, now: Int64) -> Kept? {
    state.withLock { state in
      guard let entry = state.entries.find(key, at: 0)?.value else { return nil }
      guard now >= entry.verifiedAt, now < entry.end else {
        state.entries.remove(key)
        return nil
      }
      state.found += 1
      return (entry.chain, entry.sent, entry.end)
    }
  }

  /// `judgementEnd`: when the first list ends, or another list or CA begins; nil without one. Keeps no chain whose end
  /// can't be read.
  func keep(
    _ chain: VerifiedChain, sent: SharedCertificates = .init(), for key: Key, judgementEnd: Int64?, now: Int64
  ) {
    guard case .at(let end)? = CertificateTime.earliest(([chain.leaf] + chain.others).map(\.notAfter)) else { return }
    let last = min(end, judgementEnd ?? .max, now.addingReportingOverflow(Self.longest).partialValue)
    guard now < last else { return }
    let entry = Entry(chain: chain, sent: sent, verifiedAt: now, end: last)
    state.withLock { $0.entries.keep(entry, for: key, at: 0, until: 0) }
  }
}

/// Which certificates of a verified chain a client sent, so that its connections and sessions share the chain's objects. A
/// parsed certificate takes some 4 KiB, and OpenSSL would keep those of each handshake for as long as the session.
struct SharedCertificates: Sendable {
  /// For each certificate that the client sent, the same certificate of the chain; nil if it is not in the chain.
  private let places: [Certificate?]

  init() { places = [] }

  /// `sent`: the certificates that a front sent for its client.
  init(_ sent: [Certificate], in chain: VerifiedChain) { places = chain.part(of: sent) }

  /// Those of the chain alone.
  var certificates: [Certificate] { places.compactMap { $0 } }

  /// `stack`: what the client sent, as OpenSSL has it in the verify callback.
  init(_ stack: OpaquePointer?, in chain: VerifiedChain) {
    let known = [chain.leaf] + chain.others
    places = (0..<max(0, copenssl_sk_X509_num(stack))).map { index in
      copenssl_sk_X509_value(stack, index).map { Certificate(retaining: $0) }.flatMap { one in
        known.first { $0 == one }
      }
    }
  }

  /// Replaces the certificates of a verification that has the same certificates as the one that this was made of.
  func replace(in store: OpaquePointer) {
    let stack = X509_STORE_CTX_get0_untrusted(store)
    guard copenssl_sk_X509_num(stack) == places.count else { return }
    for (index, certificate) in places.enumerated() {
      let place = Int32(truncatingIfNeeded: index)
      guard let certificate, copenssl_sk_X509_value(stack, place) != certificate.handle else { continue }
      X509_up_ref(certificate.handle)
      PeerCertificates.put(certificate.handle, at: place, in: store)
    }
  }
}
