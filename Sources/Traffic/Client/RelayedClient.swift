package import Crypto
package import TLS

/// The client of one request that came over a connection of others: a front's, or one without TLS
/// (`real_client_cert_from`). The request's server block has judged the client, and no handshake has.
public struct RelayedClient {
  /// Who sent the request.
  public enum Source {
    /// A front whose address the configuration lists.
    case frontByAddress
    /// A front whose own certificate matches a selector of the configuration.
    case frontByCertificate
    /// Somebody without TLS who is no such front, and so a client without a certificate.
    case stranger
  }

  package let source: Source
  package let verdict: ClientVerdict
  package let admission: Admission
  /// Whether the front has sent a field that could not be read. The client is then none that has no certificate.
  package let isUnreadable: Bool
  /// `ssl_verify_report_only` of the server block.
  package let reportsOnly: Bool
  /// Those by which another configuration can judge the client: leaf first. Empty: the client has none.
  package let certificates: [Certificate]
  /// From when on a request in progress is to be judged again, in seconds since 1970; `.max`: never.
  package let judgementEnd: Int64

  /// A client that was judged by `context`.
  package init(
    from source: Source, _ verdict: ClientVerdict, showing certificates: [Certificate] = [],
    by context: ServerTLSContext, until end: Int64 = .max
  ) {
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
    certificates = []
    admission = .refused(.certificateError, reason: reason)
    isUnreadable = true
    judgementEnd = .max
    reportsOnly = false
  }
}
