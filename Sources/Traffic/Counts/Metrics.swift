import Observability
import Synchronization
package import TLS

/// How a client's handshake ended.
public enum ClientOutcome: String, CaseIterable, Sendable {
  /// The client presented no certificate.
  case absent
  case verified
  /// A pin alone vouches for the client.
  case pinned
  /// `optional_no_ca`: no chain to an anchor.
  case unverified
  /// The client presented a certificate that didn't verify.
  case refused
  /// The handshake failed, or was refused in it.
  case failed

  package init(_ verdict: ClientVerdict) {
    switch verdict {
    case .absent: self = .absent
    case .verified: self = .verified
    case .pinned: self = .pinned
    case .unverified: self = .unverified
    case .refused: self = .refused
    }
  }
}

/// Why sallyport refused a request because of the client's identity, after the handshake.
public enum ClientRefusal: String, CaseIterable, Sendable {
  case certificate
  /// By `ssl_client_allow` and `ssl_client_deny`.
  case rule
  /// 421: the Host's client policy isn't that of the handshake.
  case misdirected
}

/// Why a request in progress was cut, which a new request of its client would be refused for.
public enum RevokedRequest: String, CaseIterable, Sendable {
  /// The client's certificate doesn't verify any more: it was revoked or has ended, its CA was removed, or a CRL of its
  /// CA has ended.
  case certificate
  /// `ssl_client_allow` and `ssl_client_deny`, or the client policy of the Host's server block.
  case rule
}

/// The counts of all workers of one process, since its start.
public final class Metrics: Sendable {
  private let workers = Mutex<[WorkerCounters]>([])
  /// For `stub_status`.
  package let traffic = TrafficCounts()
  /// Clients' certificates that need attention.
  package let notices = CertificateNotices()
  /// What the main queue tells.
  public let process = ProcessRecord()

  public init() {}

  /// Makes the counts of a new worker. `index`: that of its loop.
  func addWorker(_ index: Int) -> WorkerCounters {
    let counters = WorkerCounters(index: index)
    workers.withLock { $0.append(counters) }
    return counters
  }

  /// What goes on now, in words for `systemctl status`.
  package var activity: String {
    let totals = traffic.totals
    return "\(totals.active) \(totals.active == 1 ? "client" : "clients"), \(totals.writing) "
      + "\(totals.writing == 1 ? "request" : "requests") in progress, \(totals.requests) since the start"
  }

  package var all: [WorkerCounters] { workers.withLock { $0 } }
}
