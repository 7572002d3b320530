import Crypto
package import TLS
package import Transport

/// Contexts for certificates of ours that a request names (`proxy_ssl_certificate` with variables), made as they are
/// asked for. One a loop, no lock.
///
/// A file is loaded off the loop, and again after `lifetime`, so that a renewed one is taken up. Bounded: a client that
/// chooses names can't fill the memory. A certificate that can't be had is a reason, never a handshake without one.
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

  private enum Entry {
    case ready(UpstreamTLSContext, CertifiedKey, expires: UInt64)
    case loading([(Outcome) -> Void])
  }

  private static let lifetime: UInt64 = 30_000
  private static let limit = 256
  /// Of all loops. A token may take long, and must not hold up who has a file.
  private static let work = BlockingWork("identities", lanes: 4, limit: 1024)
  private static let crowded = Refusal(reason: "too many certificates are being loaded")

  private var entries: [Key: Entry] = [:]
  private let loop: EventLoop

  package init(loop: EventLoop) { self.loop = loop }

  /// Calls back with `base`'s policy and this certificate, perhaps at once.
  package func find(_ base: UpstreamTLSContext, _ source: CertificateSource, _ found: @escaping (Outcome) -> Void) {
    let key = Key(base: ObjectIdentifier(base), source: source)
    var known: (UpstreamTLSContext, CertifiedKey)?
    switch entries[key] {
    case .ready(let context, _, let expires) where expires > loop.now: return found(.success(context))
    case .ready(let context, let identity, _): known = (context, identity)
    case .loading(let others):
      entries[key] = .loading(others + [found])
      return
    case nil: makeRoom()
    }
    guard entries.count < Self.limit || known != nil else {
      return found(.failure(Self.crowded))
    }
    entries[key] = .loading([found])
    let box = LoopBox(self)
    let passwordFile = base.settings.passwordFile
    let isTaken = Self.work.run { [known, loop] in
      let result = Self.load(base, source, passwordFile, known)
      loop.post { box.value.loaded(key, result) }
    }
    if !isTaken { loaded(key, .failure(Self.crowded)) }
  }

  /// An unchanged certificate keeps its context, and with it sessions and connections.
  private static func load(
    _ base: UpstreamTLSContext, _ source: CertificateSource, _ passwordFile: MaterialReference?,
    _ known: (UpstreamTLSContext, CertifiedKey)?
  ) -> Result<(UpstreamTLSContext, CertifiedKey), Refusal> {
    do {
      let passwords = try passwordFile.map { try PasswordFile.load($0) } ?? []
      let identity = try CertifiedKey.load(certificate: source.certificate, key: source.key, passwords: passwords)
      if let known, known.1.certificate == identity.certificate, known.1.chain == identity.chain {
        return .success(known)
      }
      return .success((try base.presenting(identity), identity))
    } catch let error as MaterialError {
      return .failure(Refusal(reason: error.message))
    } catch {
      return .failure(Refusal(reason: "\(error)"))
    }
  }

  private func loaded(_ key: Key, _ result: Result<(UpstreamTLSContext, CertifiedKey), Refusal>) {
    guard case .loading(let waiting) = entries[key] else { return }
    entries[key] = nil
    if case .success(let (context, identity)) = result {
      entries[key] = .ready(context, identity, expires: loop.now &+ Self.lifetime)
    }
    for found in waiting { found(result.map(\.0)) }
  }

  private func makeRoom() {
    guard entries.count >= Self.limit else { return }
    let idle = entries.first { if case .ready = $0.value { true } else { false } }
    if let idle { entries[idle.key] = nil }
  }
}
