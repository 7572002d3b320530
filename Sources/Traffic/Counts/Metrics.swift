import Observability
import Synchronization
package import TLS
import Upstream

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
  /// The API denies the certificate.
  case denial
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
  private let recent = Mutex(CountHistory())

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

  /// What was counted within the last ten minutes.
  package var history: CountHistory { recent.withLock { $0 } }

  /// Takes a point of the history, if it is time. For a timer of the process, which may call it as often as it likes.
  package func follow(at now: Int64 = MonotonicClock.seconds) {
    guard recent.withLock({ $0.isDue(at: now) }) else { return }
    let workers = all, tables = workers.map { worker in worker.withMeters { $0 } }
    let counts =
      workers.map { (.worker($0.index), CountHistory.Point(all: $0.lag.recent)) }
      + Self.points(tables.map(\.requests), CountHistory.Subject.server) { meter in
        CountHistory.Point(all: meter.all, errors: meter.serverErrors)
      }
      + Self.points(tables.map(\.sessions), CountHistory.Subject.stream) { CountHistory.Point(all: $0.ended) }
      + Self.points(tables.map(\.attempts), CountHistory.Subject.upstream) { meter in
        var totals = AttemptTotals()
        meter.add(to: &totals)
        return CountHistory.Point(all: totals.attempts, errors: totals.failures &+ totals.serverErrors)
      }
    recent.withLock { $0.take(counts, at: now) }
  }

  /// The sums of one kind of meters, in the order of what they count.
  private static func points<Series: Hashable & Comparable, Meter>(
    _ tables: [[Series: Meter]], _ subject: (Series) -> CountHistory.Subject,
    _ point: (Meter) -> CountHistory.Point
  ) -> [(subject: CountHistory.Subject, point: CountHistory.Point)] {
    let sums = tables.reduce(into: [Series: CountHistory.Point]()) { sums, table in
      for (series, meter) in table { sums[series, default: CountHistory.Point(all: 0)] += point(meter) }
    }
    return sums.sorted { $0.key < $1.key }.map { (subject($0.key), $0.value) }
  }

  package var all: [WorkerCounters] { workers.withLock { $0 } }
}
