import COpenSSL
package import Crypto
import Glibc
package import Negotiation
package import Transport

/// One request of a client that verifies nothing and says what it saw: `sallyport convert --compare`.
///
/// It blocks, and must never carry anything that matters.
package struct TrialExchange: Sendable {
  /// What the client shows and offers in the handshake.
  package struct Handshake: Sendable {
    package var identity: CertifiedKey?
    /// nil: no name is sent.
    package var serverName: String?
    /// The only version that it offers, as `ssl_protocols` names it.
    package var version: String

    package init(identity: CertifiedKey?, serverName: String?, version: String) {
      self.identity = identity
      self.serverName = serverName
      self.version = version
    }
  }

  private static let versions = [
    "TLSv1": TLS1_VERSION, "TLSv1.1": TLS1_1_VERSION, "TLSv1.2": TLS1_2_VERSION, "TLSv1.3": TLS1_3_VERSION,
  ]

  private let handshake: Handshake?
  private let negotiation: NegotiatedProtocol?
  private let seconds: Int
  /// What goes out before TLS, such as a header of the PROXY protocol.
  private let preamble: [UInt8]

  /// `handshake`: nil for a connection in clear. `negotiation`: how TLS is asked for; nil: it begins at once.
  package init(
    _ handshake: Handshake?, negotiation: NegotiatedProtocol? = nil, preamble: [UInt8] = [], seconds: Int = 5
  ) {
    self.negotiation = negotiation
    self.preamble = preamble
    self.handshake = handshake
    self.seconds = seconds
  }

  /// Returns the answer, as far as it came, and why it ended; "" if the server ended it. An answer ends early once
  /// `isEnough` says so.
  package func answer(
    from address: SocketAddress, to request: [UInt8], isEnough: ([UInt8]) -> Bool
  ) -> (bytes: [UInt8], reason: String) {
    guard let client = try? WaitingClient(to: address, by: Deadline(seconds: seconds)) else {
      return ([], "no connection")
    }
    guard client.send(preamble) else { return ([], "the connection ended") }
    guard let handshake else { return clear(client, request, isEnough) }
    if let negotiation, let fault = client.negotiate(negotiation) { return ([], fault.words) }
    guard let context = SSL_CTX_new(TLS_client_method()) else { return ([], OpenSSLReasons.words()) }
    defer { SSL_CTX_free(context) }
    // Level 0: what the server accepts is asked, and not what this client would.
    SSL_CTX_set_security_level(context, 0)
    _ = copenssl_ctx_set_min_proto(context, Self.versions[handshake.version] ?? TLS1_3_VERSION)
    _ = copenssl_ctx_set_max_proto(context, Self.versions[handshake.version] ?? TLS1_3_VERSION)
    guard let ssl = SSL_new(context), SSL_set_fd(ssl, client.descriptor) == 1 else {
      return ([], OpenSSLReasons.words())
    }
    defer { SSL_free(ssl) }
    if let identity = handshake.identity {
      SSL_use_certificate(ssl, identity.certificate.handle)
      SSL_use_PrivateKey(ssl, identity.key.handle)
    }
    if let name = handshake.serverName { _ = copenssl_set_tlsext_host_name(ssl, name) }
    _ = SSL_ctrl(ssl, SSL_CTRL_CLEAR_MODE, Int(SSL_MODE_AUTO_RETRY), nil)
    if let failure = client.handshake(ssl) { return ([], failure.words) }
    if !request.isEmpty,
      case .failed(let reason) = client.perform(ssl, { SSL_write($0, request, Int32(clamping: request.count)) })
    {
      return ([], reason)
    }
    var answer: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 16 * 1024)
    while answer.count < 1 << 20, !isEnough(answer) {
      switch client.perform(ssl, { SSL_read($0, &buffer, Int32(buffer.count)) }) {
      case .done(let count): answer += buffer[..<Int(count)]
      case .ended: return (answer, "")
      case .late: return (answer, "no answer in time")
      case .failed(let reason): return (answer, reason)
      }
    }
    return (answer, "")
  }

  private func clear(
    _ client: borrowing WaitingClient, _ request: [UInt8], _ isEnough: ([UInt8]) -> Bool
  ) -> (bytes: [UInt8], reason: String) {
    guard client.send(request) else { return ([], "the connection ended") }
    var answer: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 16 * 1024)
    while answer.count < 1 << 20, !isEnough(answer) {
      guard client.deadline.wait(for: client.descriptor, Int16(POLLIN)) else { return (answer, "no answer in time") }
      let count = read(client.descriptor, &buffer, buffer.count)
      guard count > 0 else { return (answer, "") }
      answer += buffer[..<count]
    }
    return (answer, "")
  }
}
