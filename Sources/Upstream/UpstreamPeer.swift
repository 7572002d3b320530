public import TLS

/// What TLS found out about the upstream at the other end of a session, as values.
///
/// Why: log lines, variables and NTLM need these facts, and the modules that write them must not ask a TLS stream.
public struct UpstreamPeer: Sendable {
  /// How the upstream's certificate was judged; `.none` over plain HTTP and before the judgement.
  public var outcome = TrustOutcome.none
  /// No request went to it: its certificate was refused.
  public var isRefused = false
  /// What `proxy_ssl_report_only` would have refused.
  public var warning: String?
  /// The hash of the upstream's public key, as `proxy_ssl_pin` writes it; empty when it showed no certificate.
  public var keyHash = ""
  /// The channel binding "tls-server-end-point" (RFC 5929 §4); nil without a certificate.
  package var endPoint: [UInt8]?

  /// A peer of which nothing is known: plain HTTP.
  public init() {}

  init(_ stream: TLSStream) {
    outcome = stream.trustResult?.outcome ?? .none
    if case .refused? = stream.trustResult { isRefused = true }
    warning = stream.trustResult?.warning
    keyHash = stream.upstreamKeyHash
    endPoint = stream.upstreamEndPoint
  }
}
