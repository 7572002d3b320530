import COpenSSL
public import Transport

/// Why a handshake with a client did not complete. The metrics and the error log use it.
public enum HandshakeCause: String, Sendable, CaseIterable {
  /// The client closed the connection before its ClientHello was complete: a port scan, or a check of a load balancer.
  case abandonedBeforeHello = "abandoned-before-hello"
  /// The client closed the connection later in the handshake.
  case abandoned
  case timeout
  case plainHTTP = "plain-http"
  /// No version of TLS that both sides allow.
  case version
  /// No cipher suite, group or signature algorithm that both sides allow.
  case cipher
  case applicationProtocol = "application-protocol"
  /// No server block serves the name of the ClientHello (`ssl_reject_handshake`), or the name is malformed.
  case unknownName = "unknown-name"
  /// The certificate of the client's name could not be loaded (`ssl_certificate` with variables).
  case noServerCertificate = "no-server-certificate"
  /// The client refused the server's certificate, by its alert.
  case serverCertificateRefused = "server-certificate-refused"
  /// The client ended the handshake by another alert.
  case clientAlert = "client-alert"
  /// `ssl_verify_reject handshake`: the client sent no certificate.
  case noCertificate = "no-certificate"
  /// `ssl_verify_reject handshake`: the client's certificate did not verify.
  case certificate
  /// `ssl_verify_reject handshake`: the access rules deny the client.
  case rule
  /// A reload changed the rules during the handshake, and the new ones refuse the client.
  case reload
  /// What arrived is not TLS, or breaks its rules.
  case malformed
  /// The socket failed.
  case socket
  /// sallyport itself could not go on: the error log has the reason.
  case `internal`

  /// The cause that an error of OpenSSL stands for. `code`: OpenSSL's packed code, of any of its libraries.
  ///
  /// What another library than libssl complains of came inside a handshake: a signature or a certificate that can't be
  /// read.
  init(openSSL code: UInt) {
    let common = copenssl_err_common_reason(code)
    if [ERR_R_MALLOC_FAILURE, ERR_R_INTERNAL_ERROR].contains(where: { common == Int32(truncatingIfNeeded: $0) }) {
      self = .internal
      return
    }
    switch copenssl_err_reason(code, ERR_LIB_SSL) {
    case SSL_R_HTTP_REQUEST, SSL_R_HTTPS_PROXY_REQUEST: self = .plainHTTP
    case SSL_R_UNSUPPORTED_PROTOCOL, SSL_R_VERSION_TOO_LOW, SSL_R_VERSION_TOO_HIGH, SSL_R_INAPPROPRIATE_FALLBACK,
      SSL_R_UNSUPPORTED_SSL_VERSION, SSL_R_NO_PROTOCOLS_AVAILABLE:
      self = .version
    case SSL_R_NO_SHARED_CIPHER, SSL_R_NO_SHARED_GROUPS, SSL_R_NO_SHARED_SIGNATURE_ALGORITHMS,
      SSL_R_NO_SUITABLE_GROUPS, SSL_R_NO_SUITABLE_KEY_SHARE, SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM,
      SSL_R_NO_SUITABLE_DIGEST_ALGORITHM, SSL_R_UNSUPPORTED_ELLIPTIC_CURVE:
      self = .cipher
    case SSL_R_NO_APPLICATION_PROTOCOL: self = .applicationProtocol
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE: self = .noCertificate
    case SSL_R_CERTIFICATE_VERIFY_FAILED: self = .certificate
    case SSL_R_UNEXPECTED_EOF_WHILE_READING: self = .abandoned
    // SSL_AD_REASON_OFFSET: the alerts of the peer. 42 to 46 and 48 are about a certificate (RFC 8446 §6.2).
    case 1042...1046, 1048: self = .serverCertificateRefused
    case 1000...1255: self = .clientAlert
    default: self = .malformed
    }
  }
}

extension TLSStream {
  /// Settles the cause of a handshake that failed, by OpenSSL's errors, which the caller hasn't taken yet: the last one is
  /// that of libssl, and those before it say in which part of a message the fault lies.
  func noteCause() {
    guard case .server = side, handshakeCause == nil else { return }
    if judgement?.denial != nil { return handshakeCause = .rule }
    if missingCertificate != nil { return handshakeCause = .noServerCertificate }
    let code = ERR_peek_last_error()
    guard code != 0 else { return }
    var cause = HandshakeCause(openSSL: code)
    // The end of the connection: `cause(of:)` knows how far the handshake was.
    if cause == .abandoned { return }
    // After a ClientHello, the connection is one of TLS, and bytes in clear on it would break RFC 8446 §5.1.
    if cause == .plainHTTP, hasChosen { cause = .malformed }
    handshakeCause = cause
    if cause == .certificate, let ssl { certificateFault = CertificateFault(code: SSL_get_verify_result(ssl)) }
  }

  /// Why the handshake with the client failed. `failure`: nil if it took too long.
  public func cause(of failure: StreamFailure?) -> HandshakeCause {
    switch failure {
    case nil: return .timeout
    case .truncated: return hasChosen ? .abandoned : .abandonedBeforeHello
    // A client that resets the connection has left, as one that closes it.
    case .socket(let error) where error.isReset: return hasChosen ? .abandoned : .abandonedBeforeHello
    case .socket: return .socket
    case .protocolError: return handshakeCause ?? .malformed
    }
  }
}
