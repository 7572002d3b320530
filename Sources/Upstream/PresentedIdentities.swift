package import Crypto
import Observability
public import TLS
package import Transport

/// `proxy_ssl_certificate_cache` (nginx).
public enum PresentedIdentityCache: Sendable, Hashable {
  /// Without the directive.
  case standard
  /// Each request reads the files. Requests that come while they are read share the result.
  case off
  case kept(CertificateCacheSettings)

  /// The largest number of certificates. `off` keeps those that are being loaded.
  var limit: Int { if case .kept(let settings) = self { settings.pairs } else { 256 } }

  /// Milliseconds after which an entry's files are looked at again.
  var lookInterval: UInt64 {
    switch self {
    case .standard: 4000
    case .off: 0
    case .kept(let settings): MonotonicClock.milliseconds(ofSeconds: settings.valid)
    }
  }

  /// Milliseconds without use after which an entry is dropped.
  var inactive: UInt64 {
    switch self {
    case .standard: 30_000
    case .off: 0
    case .kept(let settings): MonotonicClock.milliseconds(ofSeconds: settings.inactive)
    }
  }

}

/// TLS contexts for certificates that a request names (`proxy_ssl_certificate` with variables), made on demand. Each
/// loop has one such object, without a lock.
///
/// A pool thread loads a file, and checks the file for changes every four seconds of use, unless
/// `proxy_ssl_certificate_cache` says another time. The number of entries is limited, so a client that chooses names can't
/// fill the memory. If a certificate can't be loaded, the request fails; there is never a handshake without the certificate.
package final class PresentedIdentities {
  package typealias Outcome = Result<UpstreamTLSContext, Refusal>

  /// Why there is no such certificate to present.
  package struct Refusal: Error, Sendable {
    package let reason: String
  }

  private struct Key: Hashable {
    var base: ObjectIdentifier
    var source: CertificateSource
  }

  private struct Known: Sendable {
    var context: UpstreamTLSContext
    var identity: CertifiedKey
    /// The stamps of the files before they were read; nil for a token's key and with `ssl_reload off`. Without stamps,
    /// the files are read again each time.
    var stamps: [FileStamp]?
    /// The time, on the loop's clock, until which the entry stays in use while its new files don't match: an operator
    /// replaces certificate and key one after the other.
    var goodUntil: UInt64 = 0
  }

  private enum Entry {
    /// `expires`: when its files are looked at again. `unused`: when nobody has used it for too long.
    case ready(Known, expires: UInt64, unused: UInt64)
    case loading([(Outcome) -> Void])
  }

  /// Milliseconds for which a certificate without stamps stays, and for which one stays whose new files don't match.
  private static let lifetime: UInt64 = 30_000
  private static let crowded = Refusal(reason: "too many certificates are being loaded")

  private var entries: [Key: Entry] = [:]
  private let cache: PresentedIdentityCache
  private let loop: EventLoop
  private let pool: BlockingPool
  private let tokens: TokenRefusals

  package init(
    _ cache: PresentedIdentityCache = .standard, loop: EventLoop, pool: BlockingPool, tokens: TokenRefusals
  ) {
    self.cache = cache
    self.loop = loop
    self.pool = pool
    self.tokens = tokens
  }

  /// Calls back with `base`'s policy and this certificate, perhaps at once.
  package func find(_ base: UpstreamTLSContext, _ source: CertificateSource, _ found: @escaping (Outcome) -> Void) {
    let key = Key(base: ObjectIdentifier(base), source: source)
    var known: Known?
    switch entries[key] {
    case .ready(let ready, let expires, let unused) where expires > loop.now && unused > loop.now:
      entries[key] = .ready(ready, expires: expires, unused: loop.now &+ cache.inactive)
      return found(.success(ready.context))
    // With unchanged files it serves on.
    case .ready(let ready, _, _): known = ready
    case .loading(let others):
      entries[key] = .loading(others + [found])
      return
    case nil: makeRoom()
    }
    guard entries.count < cache.limit || known != nil else {
      return found(.failure(Self.crowded))
    }
    entries[key] = .loading([found])
    let box = LoopBox(self)
    // A token may take long, and must not delay certificates whose key is in a file.
    let outcome = pool.run(.identities, for: source.isOfStore ? "store" : "file") { [known, loop, tokens] in
      let result = Self.load(base, source, known, tokens)
      loop.post { box.value.loaded(key, result, after: known) }
    }
    if !outcome.isTaken { loaded(key, .failure(Self.crowded), after: known) }
  }

  /// An unchanged certificate keeps its context, and with it sessions and connections.
  private static func load(
    _ base: UpstreamTLSContext, _ source: CertificateSource, _ known: Known?, _ tokens: TokenRefusals
  ) -> Result<Known, Refusal> {
    let passwordFile = base.settings.passwordFile
    let files = [source.certificate, source.key, passwordFile].compactMap { $0 }
    // Taken before reading, so that a change during the reading counts as a change.
    let stamps = base.settings.reloads ? FileStamp.all(files) : nil
    if let known, let stamps, known.stamps == stamps { return .success(known) }
    do {
      let passwords = try passwordFile.map { try PasswordFile.load($0) } ?? []
      let identity = try CertifiedKey.load(
        certificate: source.certificate, key: source.key, passwords: passwords, tokens: tokens)
      if var known, known.identity.certificate == identity.certificate, known.identity.chain == identity.chain {
        known.stamps = stamps
        return .success(known)
      }
      return .success(Known(context: try base.presenting(identity), identity: identity, stamps: stamps))
    } catch let error as MaterialError {
      return .failure(Refusal(reason: error.message))
    } catch {
      return .failure(Refusal(reason: "\(error)"))
    }
  }

  private func loaded(_ key: Key, _ result: Result<Known, Refusal>, after former: Known?) {
    guard case .loading(let waiting) = entries[key] else { return }
    entries[key] = nil
    var result = result
    if case .success(var known) = result {
      known.goodUntil = loop.now &+ Self.lifetime
      keep(known, key, for: known.stamps == nil ? max(Self.lifetime, cache.lookInterval) : cache.lookInterval)
    } else if let former, former.goodUntil > loop.now {
      keep(former, key, for: cache.lookInterval)
      result = .success(former)
    }
    for found in waiting { found(result.map(\.context)) }
  }

  private func keep(_ known: Known, _ key: Key, for time: UInt64) {
    if case .off = cache { return }
    entries[key] = .ready(
      known, expires: loop.now &+ time, unused: loop.now &+ cache.inactive)
  }

  /// Drops the entry that was used least of late, if there are as many as may be.
  private func makeRoom() {
    guard entries.count >= cache.limit else { return }
    var least: (key: Key, unused: UInt64)?
    for case (let key, .ready(_, _, let unused)) in entries where unused < least?.unused ?? .max {
      least = (key, unused)
    }
    if let least { entries[least.key] = nil }
  }
}

extension CertificateSource {
  /// The key is of a token or another store, not of a file.
  fileprivate var isOfStore: Bool { if case .key = key?.spelling { true } else { false } }
}
