package import Bytes
package import Crypto
import Observability
import Synchronization
package import Transport

/// Loads the certificates whose names have variables, on the blocking pool, and keeps some (`ssl_certificate_cache`).
///
/// Each server block of a generation has one, which all workers share. Everything in it is bounded: the pairs by the
/// directive, the remembered failures by `failureLimit`, the loads that wait by `BlockingWork.certificates`.
package final class CertificateStore: Sendable {
  package typealias Outcome = Result<[CertifiedKey], NamedCertificateFault>
  package typealias Load = @Sendable (CertificateSource) throws(MaterialError) -> CertifiedKey

  /// A certificate that a handshake needs.
  enum Wanted: Sendable {
    case loaded(CertifiedKey)
    case file(CertificateSource)
  }

  private struct Pair: Sendable {
    var identity: CertifiedKey
    /// The states of the files before they were read; nil when a state can't be read.
    var stamps: [FileStamp]?
  }

  private struct State: Sendable {
    /// nil without `ssl_certificate_cache`.
    var pairs: RecentlyUsed<CertificateSource, Pair>?
    var failures: RecentlyUsed<CertificateSource, NamedCertificateFault>
  }

  /// Milliseconds for which a failure is an answer, so that handshakes for one missing file don't read the disk each.
  static let failureTime: UInt64 = 250
  private static let failureLimit = 1024
  /// Milliseconds after its validity in which a pair stays in use while its new files don't load: an operator replaces
  /// certificate and key one after the other.
  static let replacementTime: UInt64 = 1000

  private let pool: BlockingPool
  private let load: Load
  private let valid: UInt64
  private let keepsPairs: Bool
  private let state: Mutex<State>

  /// `passwords`: those of `ssl_password_file`.
  package convenience init(
    _ cache: CertificateCacheSettings?, passwords: [SecretBytes], pool: BlockingPool, tokens: TokenRefusals
  ) {
    self.init(cache, pool: pool) { source throws(MaterialError) in
      try CertifiedKey.load(
        certificate: source.certificate, key: source.key, passwords: passwords, tokens: tokens, onlyRegular: true)
    }
  }

  init(_ cache: CertificateCacheSettings?, pool: BlockingPool, load: @escaping Load) {
    self.pool = pool
    self.load = load
    valid = MonotonicClock.milliseconds(ofSeconds: cache?.valid ?? 0)
    keepsPairs = cache != nil
    let pairs = cache.map {
      RecentlyUsed<CertificateSource, Pair>(
        limit: $0.pairs, inactive: MonotonicClock.milliseconds(ofSeconds: $0.inactive))
    }
    state = Mutex(
      State(pairs: pairs, failures: RecentlyUsed(limit: Self.failureLimit, inactive: Self.failureTime)))
  }

  private static var now: UInt64 { UInt64(clamping: Microseconds.now / 1000) }

  /// The number of kept pairs.
  var count: Int { state.withLock { $0.pairs?.count ?? 0 } }

  /// Returns the certificates if no file must be read for them, or why one of them can't be had; nil if files must be
  /// read.
  func known(_ wanted: [Wanted]) -> Outcome? {
    var pairs: [CertifiedKey] = []
    for certificate in wanted {
      switch certificate {
      case .loaded(let pair): pairs.append(pair)
      case .file(let source):
        switch known(source) {
        case .success(let pair): pairs.append(pair)
        case .failure(let fault): return .failure(fault)
        case nil: return nil
        }
      }
    }
    return .success(pairs)
  }

  private func known(_ source: CertificateSource) -> Result<CertifiedKey, NamedCertificateFault>? {
    let now = Self.now
    return state.withLock { state in
      if let pair = state.pairs?.valid(source, at: now) { return .success(pair.identity) }
      return state.failures.valid(source, at: now).map { .failure($0) }
    }
  }

  /// Loads the certificates and calls `completion` from a thread of the pool. `party`: who waits behind themselves.
  func load(
    _ wanted: [Wanted], for party: String, _ completion: @escaping @Sendable (Outcome) -> Void
  ) -> BlockingPool.Submission {
    pool.run(.certificates, for: party) { [self] in completion(loadNow(wanted)) }
  }

  func withdraw(_ ticket: BlockingPool.Ticket) { pool.withdraw(ticket) }

  /// Blocks, so never call it on an event loop.
  func loadNow(_ wanted: [Wanted]) -> Outcome {
    var pairs: [CertifiedKey] = []
    for certificate in wanted {
      switch certificate {
      case .loaded(let pair): pairs.append(pair)
      case .file(let source):
        // Another handshake may have loaded it while this one waited for its turn.
        switch known(source) ?? read(source) {
        case .success(let pair): pairs.append(pair)
        case .failure(let fault): return .failure(fault)
        }
      }
    }
    return .success(pairs)
  }

  private func read(_ source: CertificateSource) -> Result<CertifiedKey, NamedCertificateFault> {
    let former = state.withLock { $0.pairs?.find(source, at: Self.now) }
    // Taken before reading, so that a change during the reading counts as a change.
    let stamps = keepsPairs ? FileStamp.all([source.certificate, source.key].compactMap { $0 }) : nil
    if let former, let stamps, former.value.stamps == stamps {
      keep(former.value, for: source)
      return .success(former.value.identity)
    }
    do throws(MaterialError) {
      let identity = try load(source)
      keep(Pair(identity: identity, stamps: stamps), for: source)
      return .success(identity)
    } catch {
      return afterFailure(NamedCertificateFault(reason: "cannot load certificate \(error.message)"), source, former)
    }
  }

  private func keep(_ pair: Pair, for source: CertificateSource) {
    let now = Self.now
    state.withLock {
      $0.pairs?.keep(pair, for: source, at: now, until: now.addingReportingOverflow(valid).partialValue)
    }
  }

  private func afterFailure(
    _ fault: NamedCertificateFault, _ source: CertificateSource, _ former: (value: Pair, validUntil: UInt64)?
  ) -> Result<CertifiedKey, NamedCertificateFault> {
    let now = Self.now
    if let former, now < former.validUntil &+ Self.replacementTime { return .success(former.value.identity) }
    state.withLock { state in
      state.pairs?.remove(source)
      state.failures.keep(fault, for: source, at: now, until: now &+ Self.failureTime)
    }
    return .failure(fault)
  }
}
