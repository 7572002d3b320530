import COpenSSL
package import Crypto
package import Negotiation
package import Transport

/// Why the server's certificate could not be fetched.
package struct CertificateFetchError: Error, Sendable, CustomStringConvertible {
  package let description: String
}

/// The certificates that a server sent in its handshake, unverified.
package struct SentCertificates: Sendable {
  package let leaf: Certificate
  /// In the order in which the server sent them.
  package let others: [Certificate]
}

/// Fetches the certificates that a server presents, for a person to look at: `sallyport pin HOST:PORT`.
///
/// This client blocks, verifies nothing and sends nothing but the handshake. Never trust its result by itself: an
/// attacker in the middle of the connection could have presented these certificates.
package enum CertificateFetch {
  /// Sends `name` as SNI unless it is an IP address. `negotiation`: how TLS is asked for first. `seconds` bounds the whole
  /// operation. `address`: of the server, or of the proxy of `origin`, which gets `server`, `HOST:PORT`.
  package static func certificates(
    from address: SocketAddress, name: String, origin: ConnectionOrigin = ConnectionOrigin(), server: String = "",
    negotiation: NegotiatedProtocol? = nil, within seconds: Int = 10
  ) throws(CertificateFetchError) -> SentCertificates {
    let client: WaitingClient
    do throws(SocketError) {
      client = try WaitingClient(to: address, from: origin, by: Deadline(seconds: seconds))
    } catch {
      throw failed(address, "\(error)")
    }
    if let fault = client.openTunnel(to: server, from: origin) {
      throw failed(address, "\(fault.words)\n    hint: \(fault.advice)")
    }
    if let negotiation, let fault = client.negotiate(negotiation) {
      throw failed(address, "\(fault.words)\n    hint: \(fault.advice)")
    }
    guard let context = SSL_CTX_new(TLS_client_method()) else { throw failed(address, OpenSSLReasons.words()) }
    defer { SSL_CTX_free(context) }
    // Level 0 accepts old servers: the command only shows their certificate, so a refusal would protect nobody.
    SSL_CTX_set_security_level(context, 0)
    guard let ssl = SSL_new(context), SSL_set_fd(ssl, client.descriptor) == 1 else {
      throw failed(address, OpenSSLReasons.words())
    }
    defer { SSL_free(ssl) }
    if SocketAddress(literal: name, port: 0) == nil { _ = copenssl_set_tlsext_host_name(ssl, name) }
    let witness = HandshakeWitness()
    witness.attach(to: ssl)
    let failure = client.handshake(ssl)
    // A server that demands a client certificate has sent its own certificate before the handshake fails.
    guard let leaf = copenssl_get0_peer_certificate(ssl) else {
      guard let failure else { throw failed(address, "it presented no certificate") }
      let fault = witness.fault(failure, on: client, presents: false)
      let port = negotiation == nil && origin.proxy == nil ? address.port : nil
      throw failed(address, fault.map { "\($0.words)\n    hint: \($0.advice(port: port))" } ?? failure.words)
    }
    let sent = SSL_get_peer_cert_chain(ssl)
    let others = (0..<copenssl_sk_X509_num(sent)).dropFirst().compactMap { index in
      copenssl_sk_X509_value(sent, index).map { Certificate(retaining: $0) }
    }
    return SentCertificates(leaf: Certificate(retaining: leaf), others: others)
  }

  private static func failed(_ address: SocketAddress, _ reason: String) -> CertificateFetchError {
    CertificateFetchError(description: "\(address): \(reason)")
  }
}

extension CertificateFetch {
  /// Returns the newest TLS version that the server speaks, TLSv1 or later; nil when it does not say so. It is for an
  /// explanation only: the client verifies nothing.
  static func newestVersion(
    at address: SocketAddress, origin: ConnectionOrigin, server: String, negotiation: NegotiatedProtocol?,
    name: String?, within seconds: Int = 5
  ) -> String? {
    guard let client = try? WaitingClient(to: address, from: origin, by: Deadline(seconds: seconds)),
      client.openTunnel(to: server, from: origin) == nil,
      negotiation.map({ client.negotiate($0) == nil }) ?? true,
      let context = SSL_CTX_new(TLS_client_method())
    else { return nil }
    defer { SSL_CTX_free(context) }
    SSL_CTX_set_security_level(context, 0)
    _ = copenssl_ctx_set_min_proto(context, TLS1_VERSION)
    guard let ssl = SSL_new(context), SSL_set_fd(ssl, client.descriptor) == 1 else { return nil }
    defer { SSL_free(ssl) }
    if let name, SocketAddress(literal: name, port: 0) == nil { _ = copenssl_set_tlsext_host_name(ssl, name) }
    let witness = HandshakeWitness()
    witness.attach(to: ssl)
    _ = client.handshake(ssl)
    guard witness.has(.received, HandshakeNames.message(2)) else { return nil }
    return String(cString: SSL_get_version(ssl))
  }
}
