public import TLS

/// What TLS knows about the upstream of a session, as values.
///
/// Log lines, variables and NTLM need these facts, and the code that writes them must not use a TLS stream.
public struct UpstreamPeer: Sendable {
  /// How the upstream's certificate was judged; `.none` over plain HTTP and before the judgement.
  public var outcome = TrustOutcome.none
  /// Whether sallyport refused the upstream's certificate, so that no request went out.
  public var isRefused = false
  /// The reason why the upstream would be refused without `proxy_ssl_pin_report_only`.
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
