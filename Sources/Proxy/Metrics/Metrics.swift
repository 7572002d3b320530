import Crypto
package import HTTP
public import Observability
import Synchronization
public import TLS
import Transport
import Upstream

/// How a client's handshake ended.
public enum ClientOutcome: String, CaseIterable, Sendable {
  /// The client presented no certificate.
  case absent
  case verified
  /// `optional_no_ca`: no chain to an anchor.
  case unverified
  /// The client presented a certificate that didn't verify.
  case refused
  /// The handshake failed, or was refused in it.
  case failed

  init(_ verdict: ClientVerdict) {
    switch verdict {
    case .absent: self = .absent
    case .verified: self = .verified
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

/// The counts of all workers of one process, since its start; and, as a page of `metrics`, what a generation knows of
/// its own age.
public final class Metrics: Sendable {
  private let workers = Mutex<[WorkerCounters]>([])
  /// For `stub_status`.
  let traffic = TrafficCounts()

  public init() {}

  /// Makes the counts of a new worker.
  func addWorker() -> WorkerCounters {
    let counters = WorkerCounters()
    workers.withLock { $0.append(counters) }
    return counters
  }

  func page(of generation: Generation) -> PrometheusText {
    var page = PrometheusText()
    let workers = workers.withLock { $0 }
    page.family("sallyport_generation", .gauge, "Configurations brought to life since the start; a reload counts one.")
    page.sample("sallyport_generation", [:], Int64(generation.number))
    page.tally(
      "sallyport_client_handshakes_total", "Handshakes of clients, by how the certificate was judged.",
      label: "verdict", workers.map(\.clients))
    page.tally(
      "sallyport_client_handshake_failures_total", "Handshakes of clients that did not complete, by cause.",
      label: "cause", workers.map(\.handshakeCauses))
    page.tally(
      "sallyport_client_certificate_refusals_total",
      "Handshakes in which a client showed a certificate that did not verify, by what was wrong with it.",
      label: "reason", workers.map(\.certificateFaults))
    page.tally(
      "sallyport_client_sessions_total", "Handshakes of clients that completed, in full or by a resumed session.",
      label: "kind", workers.map(\.sessions))
    page.tally(
      "sallyport_client_refusals_total", "Requests refused for who the client is.", label: "reason",
      workers.map(\.refusals))
    page.tally(
      "sallyport_client_reports_total", "Requests let in whose client would be refused (ssl_verify_report_only).",
      label: "reason", workers.map(\.reports))
    page.tally(
      "sallyport_upstream_handshakes_total", "Handshakes with upstreams, by the result of trust.", label: "result",
      workers.map(\.upstreams))
    page.health(generation.health)
    page.tally(
      "sallyport_http2_limits_total", "Connections and streams of HTTP/2 that ended at a limit.", label: "limit",
      workers.map(\.http2))
    let servers = zip(generation.http.servers, generation.serverContexts)
    page.family(
      "sallyport_certificate_end_timestamp_seconds", .gauge, "When a certificate that is shown to clients ends.")
    for (server, context) in servers {
      for certificate in context?.certificates ?? [] {
        // An end that can't be read has no sample.
        guard let end = certificate.notAfter.seconds else { continue }
        page.sample(
          "sallyport_certificate_end_timestamp_seconds",
          ["server": server.primaryName, "subject": certificate.subject.rfc2253], end)
      }
    }
    let lists: [(side: String, list: RevocationList)] =
      servers.flatMap { $0.1?.revocations ?? [] }.map { ("client", $0) }
      + generation.upstreamContexts.values.flatMap(\.revocations).map { ("upstream", $0) }
    page.lists(lists)
    return page
  }
}

extension PrometheusText {
  /// Each checked server once, however many checks concern it; nothing without checks.
  fileprivate mutating func health(_ records: HealthRecords) {
    let servers = records.byServer.map { (server: $0, checks: $1, address: $0.address.description) }
      .sorted { ($0.server.group, $0.address) < ($1.server.group, $1.address) }
    guard !servers.isEmpty else { return }
    family("sallyport_upstream_server_up", .gauge, "Whether a server is up by its health checks.")
    for (server, checks, address) in servers {
      sample(
        "sallyport_upstream_server_up", ["upstream": server.group, "server": address],
        checks.allSatisfy(\.isUp) ? 1 : 0)
    }
    family("sallyport_upstream_health_checks_total", .counter, "Health checks of a server, by their result.")
    for (server, checks, address) in servers {
      for result in ServerHealth.Result.allCases {
        let count = checks.reduce(UInt64(0)) { $0 &+ $1.count(result) }
        sample(
          "sallyport_upstream_health_checks_total",
          ["upstream": server.group, "server": address, "result": result.rawValue], Int64(clamping: count))
      }
    }
  }

  /// Every list once, however many server blocks have it.
  fileprivate mutating func lists(_ lists: [(side: String, list: RevocationList)]) {
    var seen: Set<[UInt8]> = []
    let lists = lists.filter { seen.insert(Array($0.side.utf8) + $0.list.sha256).inserted }
    family("sallyport_crl_update_timestamp_seconds", .gauge, "When a revocation list was made.")
    for (side, list) in lists {
      sample("sallyport_crl_update_timestamp_seconds", ["side": side, "issuer": list.issuer], list.thisUpdate)
    }
    family(
      "sallyport_crl_end_timestamp_seconds", .gauge,
      "When a revocation list ends: from then on everybody of its CA is refused.")
    for (side, list) in lists {
      guard let end = list.nextUpdate else { continue }
      sample("sallyport_crl_end_timestamp_seconds", ["side": side, "issuer": list.issuer], end)
    }
  }
}
