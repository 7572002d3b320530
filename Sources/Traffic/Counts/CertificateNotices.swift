package import Crypto
import Synchronization

/// What should be done about the certificate of a client before the client is refused for it, or because it was.
package enum CertificateNotice: String, CaseIterable, Sendable {
  /// It ends soon (`ssl_expiry_warning`).
  case ending
  /// Its extended key usage doesn't allow clientAuth. Without `ssl_client_purpose any`, the client was refused for it.
  case purpose

  /// The notices about a certificate that a CA vouches for. `now`: seconds since 1970.
  package static func all(of leaf: Certificate, _ expiry: ExpiryNotice, now: Int64) -> [CertificateNotice] {
    var found: [CertificateNotice] = []
    if let begin = leaf.notBefore.seconds, let end = leaf.notAfter.seconds,
      expiry.age(from: begin, to: end, at: now) == .ending
    {
      found.append(.ending)
    }
    if !leaf.allowsClients { found.append(.purpose) }
    return found
  }

  /// For the error log.
  package func words(of leaf: Certificate, now: Int64) -> String {
    switch self {
    case .ending:
      "a client's certificate \(leaf.notAfter.seconds.map { ExpiryWords.ends($0, at: now) } ?? "ends soon"), on \(leaf.notAfterWords)"
    case .purpose: "a client's certificate is not one for clients: its extended key usage lacks clientAuth"
    }
  }

  /// The same without what differs between clients, by which the lines fold.
  package var summary: String {
    switch self {
    case .ending: "certificates of clients end soon"
    case .purpose: "certificates of clients are not for clients: their extended key usage lacks clientAuth"
    }
  }
}

/// How often clients came with a certificate that needs attention, by its issuer, in full handshakes of all workers.
///
/// The issuer is that of a verified chain, so a CA of the configuration vouches for the name, and no stranger can add any.
/// Bounded: 64 issuers and `other`.
package final class CertificateNotices: Sendable {
  package struct Count: Sendable, Equatable {
    package var notice: CertificateNotice
    /// RFC 2253, cut to 256 octets.
    package var issuer: String
    package var count: UInt64
    /// When one came last, in seconds since 1970.
    package var last: Int64
  }

  private struct Key: Hashable {
    var notice: CertificateNotice
    var issuer: String
  }

  package static let limit = 64
  /// Stands for the issuers beyond the limit. No name of RFC 2253 has this text: it would have a `=`.
  package static let other = "other"

  private let counts = Mutex<[Key: (count: UInt64, last: Int64)]>([:])

  package func count(_ notice: CertificateNotice, issuer: String, now: Int64) {
    counts.withLock { counts in
      var key = Key(notice: notice, issuer: issuer)
      if counts[key] == nil {
        let known = Set(counts.keys.map(\.issuer)).subtracting([Self.other])
        if known.count >= Self.limit, !known.contains(issuer) { key.issuer = Self.other }
      }
      let former = counts[key]?.count ?? 0
      counts[key] = (former &+ 1, now)
    }
  }

  package var all: [Count] {
    counts.withLock { counts in
      counts.map { Count(notice: $0.key.notice, issuer: $0.key.issuer, count: $0.value.count, last: $0.value.last) }
    }.sorted { ($0.notice.rawValue, $0.issuer) < ($1.notice.rawValue, $1.issuer) }
  }
}
