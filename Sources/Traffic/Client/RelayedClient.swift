package import Crypto
package import TLS

/// The client of one request that came over a connection of others: a front's, or one without TLS
/// (`real_client_cert_from`). The request's server block has judged the client, and no handshake has.
public struct RelayedClient {
  /// Who sent the request.
  public enum Source: Hashable {
    /// A front whose address the configuration lists, as it is written there.
    case frontByAddress(String)
    /// A front whose own certificate matches a selector of the configuration.
    case frontByCertificate
    /// Somebody without TLS who is no such front, and so a client without a certificate.
    case stranger

    var isAddress: Bool { if case .frontByAddress = self { true } else { false } }
  }

  package let source: Source
  package let verdict: ClientVerdict
  package private(set) var admission: Admission
  /// Whether the front has sent a field that could not be read. The client is then none that has no certificate.
  package let isUnreadable: Bool
  /// `ssl_verify_report_only` of the server block.
  package let reportsOnly: Bool
  /// Those that the front sent, by which another configuration can judge the client: leaf first. Empty: the client has none.
  package let certificates: [Certificate]
  /// Tells what the front sent from what it sends for other clients; empty without certificates.
  package let digest: [UInt8]
  /// From when on a request in progress is to be judged again, in seconds since 1970; `.max`: never.
  package let judgementEnd: Int64

  /// A client that was judged by `context`.
  package init(
    from source: Source, _ verdict: ClientVerdict, showing certificates: [Certificate] = [], digest: [UInt8] = [],
    by context: ServerTLSContext, until end: Int64 = .max
  ) {
    self.digest = digest
    judgementEnd = end
    self.source = source
    self.verdict = verdict
    self.certificates = certificates
    admission = Admission(of: verdict, by: context)
    isUnreadable = false
    reportsOnly = context.settings.rejection == .reportOnly
  }

  /// A client whose field can't be read, which no `ssl_verify_report_only` lets in.
  package init(from source: Source, unreadable reason: String) {
    self.source = source
    verdict = .absent
    (certificates, digest) = ([], [])
    admission = .refused(.certificateError, .certificate, reason: reason)
    isUnreadable = true
    judgementEnd = .max
    reportsOnly = false
  }

  /// The client, whom no rule lets in if the API denies its certificate.
  func judged(by denials: ClientDenials) -> RelayedClient {
    guard let rest = denials.rest(certificates.first) else { return self }
    var denied = self
    denied.admission = .denied(for: rest)
    return denied
  }
}
