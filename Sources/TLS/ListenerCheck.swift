import COpenSSL
package import Crypto
package import Negotiation
package import Transport

/// Looks whether a listener of this machine takes connections and begins a TLS handshake, for `sallyport health`.
///
/// The client blocks, presents no certificate, verifies nothing and sends no request.
package enum ListenerCheck {
  package enum Outcome: Sendable {
    /// The listener takes connections. Nothing more was asked.
    case connected
    /// It presented this certificate.
    case presented(Certificate)
    /// It ended the handshake by a TLS alert.
    case refused(String)
    /// It can't be reached, or sent no answer in time.
    case failed(String)
  }

  /// `header`: what to send first, such as a header of the PROXY protocol. `negotiation`: how TLS is asked for. `mark`: by
  /// which the process knows the handshake, so that one that it refuses doesn't count as a client's.
  package static func run(
    _ address: SocketAddress, header: [UInt8], startsTLS: Bool, negotiation: NegotiatedProtocol? = nil,
    mark: HealthMark? = nil, by deadline: Deadline
  ) -> Outcome {
    let client: WaitingClient
    do throws(SocketError) { client = try WaitingClient(to: address, by: deadline) } catch {
      return .failed("\(error)")
    }
    guard client.send(header) else { return .failed("it takes no bytes") }
    guard startsTLS else { return .connected }
    if let negotiation, let fault = client.negotiate(negotiation) { return .failed(fault.words) }
    let marked = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: HealthMark.length)
    // After the context, which has its address.
    defer { marked.deallocate() }
    guard let context = SSL_CTX_new(TLS_client_method()) else { return .failed(OpenSSLReasons.words()) }
    defer { SSL_CTX_free(context) }
    // The certificate is not judged here: an old one must not hide that the listener works.
    SSL_CTX_set_security_level(context, 0)
    if let mark, let start = marked.baseAddress {
      _ = marked.initialize(fromContentsOf: mark.bytes)
      HealthMark.add(start, to: context)
    }
    guard let ssl = SSL_new(context), SSL_set_fd(ssl, client.descriptor) == 1 else {
      return .failed(OpenSSLReasons.words())
    }
    defer { SSL_free(ssl) }
    let outcome = client.perform(ssl) { SSL_connect($0) }
    if let leaf = copenssl_get0_peer_certificate(ssl) { return .presented(Certificate(retaining: leaf)) }
    return switch outcome {
    case .done: .failed("it presented no certificate")
    case .ended: .failed("it closed the connection in the TLS handshake")
    case .late: .failed("it did not answer in the TLS handshake in time")
    case .failed(let reason): .refused(reason)
    }
  }
}
