package import Crypto
import Synchronization

/// A distribution point of a certificate whose chain verified.
package struct RevocationPoint: Sendable, Hashable {
  package let url: RevocationURL
  /// The CA that issued the certificate, and whose list is expected there.
  package let issuer: Certificate
  /// The settings of the server block that the client came to.
  package let fetch: RevocationFetch

  package init(url: RevocationURL, issuer: Certificate, fetch: RevocationFetch) {
    self.url = url
    self.issuer = issuer
    self.fetch = fetch
  }
}

/// Tells where the lists are that a client's chain lacks (`ssl_crl_fetch`).
///
/// Only a chain that verified in all else brings a point: a stranger's certificate must never make the server send a
/// request. Bounded, and safe to use from any thread. It belongs to the daemon, because a reload forgets nothing.
package final class RevocationPoints: Sendable {
  private struct Key: Hashable {
    let url: RevocationURL
    let issuer: Certificate
    let folder: String?
  }

  /// The most points of all clients.
  package static let limit = 64

  private let state = Mutex<(known: Set<Key>, told: (@Sendable (RevocationPoint) -> Void)?)>(([], nil))

  package init() {}

  /// `told`: gets each point once, on any thread.
  package func follow(_ told: @escaping @Sendable (RevocationPoint) -> Void) { state.withLock { $0.told = told } }

  /// What is fetched already needs no telling. What is left out may be told again.
  package func keep(_ points: [RevocationPoint]) {
    let keys = Set(points.map { Key(url: $0.url, issuer: $0.issuer, folder: $0.fetch.folder) })
    state.withLock { $0.known = keys }
  }

  /// Call this for a chain that verified, except that it lacks a list.
  func note(_ chain: VerifiedChain, _ fetch: RevocationFetch) {
    guard fetch.points != .none else { return }
    let certificates = [chain.leaf] + chain.others
    for (certificate, issuer) in zip(certificates, certificates.dropFirst()) {
      // One is enough: a CA publishes the same list at each of its points.
      guard let url = certificate.revocationURLs.first(where: { fetch.admits($0) }) else { continue }
      let key = Key(url: url, issuer: issuer, folder: fetch.folder)
      let told = state.withLock { state -> (@Sendable (RevocationPoint) -> Void)? in
        guard state.known.count < Self.limit, let told = state.told, state.known.insert(key).inserted else {
          return nil
        }
        return told
      }
      told?(RevocationPoint(url: url, issuer: issuer, fetch: fetch))
    }
  }
}
