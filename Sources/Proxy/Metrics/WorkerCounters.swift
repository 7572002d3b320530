package import HTTP
public import Observability
public import TLS

/// How a handshake of a client completed.
public enum HandshakeKind: String, CaseIterable, Sendable {
  case full, resumed
}

/// What one worker counts at most once a connection, or for a request that it refuses. Only its own loop writes, and
/// `Metrics` adds up the counts of all workers.
public final class WorkerCounters: Sendable {
  public let clients = Counter<ClientOutcome>()
  public let handshakeCauses = Counter<HandshakeCause>()
  public let certificateFaults = Counter<CertificateFault>()
  public let sessions = Counter<HandshakeKind>()
  public let refusals = Counter<ClientRefusal>()
  /// Requests that would have been refused (`ssl_verify_report_only`).
  public let reports = Counter<ClientRefusal>()
  /// One for each handshake with an upstream.
  public let upstreams = Counter<TrustOutcome>()
  /// What clients of HTTP/2 did too much of.
  package let http2 = Counter<HTTP2Limit>()

  init() {}

  func handshakeDidComplete(_ tls: TLSStream) {
    clients.count(ClientOutcome(tls.clientVerdict))
    sessions.count(tls.isResumed ? .resumed : .full)
    if let fault = tls.refusedCertificate { certificateFaults.count(fault) }
  }
}
