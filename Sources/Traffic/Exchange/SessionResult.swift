/// How a session of `stream` ended, as metrics and the page of status name it. Every session ends with one of these, by
/// `StreamSession.end`.
public enum SessionResult: String, CaseIterable, Sendable {
  /// Both sides ended in good order, or the client has got its text (`return`).
  case ok
  /// The connection went to another listener, which counts it too (`pass`).
  case passed
  /// The client broke off.
  case clientBroke = "client-broke"
  /// The upstream broke off.
  case upstreamBroke = "upstream-broke"
  /// No byte came or went for `proxy_timeout`.
  case timeout
  /// `connection_max_time`
  case lifetime
  /// The configuration of a reload refuses the client (`ssl_revoked_connections`).
  case revoked
  /// The worker stopped, or a reload's `worker_shutdown_timeout` has passed.
  case stopped
  /// `allow` and `deny`
  case refusedAddress = "refused-address"
  /// The client's certificate doesn't verify, or there is none.
  case refusedCertificate = "refused-certificate"
  /// `ssl_client_allow` and `ssl_client_deny`
  case refusedRule = "refused-rule"
  /// `limit_conn`, or `worker_connections` during the handshake.
  case limited
  /// No upstream could be reached, or none was trusted.
  case upstream
  /// The header of the PROXY protocol is malformed, or did not come in time.
  case proxyHeader = "proxy-header"
  /// The client did not ask for TLS as its protocol does (`starttls`).
  case negotiation = "protocol"
  /// The ClientHello did not come whole (`ssl_preread`).
  case preread
  /// The handshake failed, or took too long.
  case handshake
  /// A fault of the configuration, or of sallyport itself: the error log has the reason.
  case error

  /// The result of a session whose rules or content refuse the client.
  package init(_ refusal: RefusalCause) {
    switch refusal {
    case .address: self = .refusedAddress
    case .limit: self = .limited
    case .upstream: self = .upstream
    case .fault: self = .error
    }
  }

  /// `$status` as nginx has it, also where its documentation doesn't say so: 500 for a handshake that failed, and for a
  /// certificate that was refused in it.
  package var status: Int {
    switch self {
    case .ok, .passed, .clientBroke, .upstreamBroke, .timeout, .lifetime, .stopped: 200
    case .proxyHeader, .negotiation, .preread: 400
    case .refusedAddress, .refusedRule, .revoked: 403
    case .handshake, .refusedCertificate, .error: 500
    case .upstream: 502
    case .limited: 503
    }
  }

  /// Whether the client was refused for who it is, or for a limit.
  package var isRefusal: Bool {
    switch self {
    case .refusedAddress, .refusedCertificate, .refusedRule, .limited, .revoked: true
    default: false
    }
  }

  /// Whether something else went wrong, before or during the content.
  package var isFailure: Bool {
    switch self {
    case .upstream, .upstreamBroke, .proxyHeader, .negotiation, .preread, .handshake, .error: true
    default: false
    }
  }

  /// What an operator reads of it in `sallyport check --explain`.
  package var words: String {
    switch self {
    case .ok: "bytes pass in both directions"
    case .passed: "the other listener's server goes on with the connection"
    case .refusedAddress: "refused by its address (allow and deny)"
    case .refusedCertificate: "refused for its certificate"
    case .refusedRule: "refused by ssl_client_allow and ssl_client_deny"
    case .limited: "refused by a limit"
    case .upstream: "no upstream can be reached"
    case .handshake: "the handshake fails"
    case .error: "an error: the error log has the reason"
    case .clientBroke, .upstreamBroke, .timeout, .lifetime, .revoked, .stopped, .proxyHeader, .negotiation, .preread:
      "ends"
    }
  }
}
