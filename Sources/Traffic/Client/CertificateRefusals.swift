import Crypto
import Observability
import Synchronization
import TLS

/// How many handshakes of late had a client certificate that verified, and how many one that didn't, by the reason and the
/// CA: for the status page, `health` and `doctor`. All workers share it.
package final class CertificateRefusals: Sendable {
  private let verified = Atomic<UInt64>(0)
  private let recent = Mutex(RecentRefusals())

  /// Fewer refusals than these are no problem of the server.
  private static let least = 10
  /// Percent.
  private static let leastShare = 10

  package init() {}

  /// Counts a handshake that is over.
  func note(_ verdict: ClientVerdict, at now: Int64 = MonotonicClock.seconds) {
    switch verdict {
    case .verified, .pinned: verified.wrappingAdd(1, ordering: .relaxed)
    case .refused(let leaf, let code, let reason, let culprit):
      let passed = verified.load(ordering: .relaxed), issuer = leaf.issuer.rfc2253.cut(to: 256)
      let name = "(\(code):\(reason)) of certificates issued by \"\(issuer)\"\(culprit?.words ?? "")"
      recent.withLock { $0.note(name, passed: passed, at: now) }
    case .absent, .unverified: break
    }
  }

  func problems(at now: Int64 = MonotonicClock.seconds) -> [StatusProblem] {
    let passed = verified.load(ordering: .relaxed)
    guard let found = recent.withLock({ $0.summary(passed: passed, at: now) }), found.refused >= Self.least,
      found.share >= Self.leastShare
    else { return [] }
    let most = found.name.map { ", at least \(found.named) of them for \($0)" } ?? ""
    return [
      StatusProblem(
        .refusals, .warning,
        "Client certificates did not verify in \(found.words("handshakes")) of the last 10 minutes\(most)")
    ]
  }
}
