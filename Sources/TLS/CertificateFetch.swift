import COpenSSL
package import Crypto
package import Transport

/// Why no certificate could be had.
package struct CertificateFetchError: Error, Sendable, CustomStringConvertible {
  package let description: String
}

/// What a server sent in its handshake. It says nothing of trust.
package struct SentCertificates: Sendable {
  package let leaf: Certificate
  /// As sent.
  package let others: [Certificate]
}

/// What a server presents, for a person to look at: `sallyport pin HOST:PORT`.
///
/// A plain, waiting client; nothing is verified and no byte of ours is sent but the handshake. What it gives must
/// never be trusted by itself: whoever sits in the middle could have presented it.
package enum CertificateFetch {
  /// `name` goes into SNI unless it is an IP address; `seconds` bound it all.
  package static func certificates(
    from address: SocketAddress, name: String, within seconds: Int = 10
  ) throws(CertificateFetchError) -> SentCertificates {
    let client: WaitingClient
    do throws(SocketError) {
      client = try WaitingClient(to: address, by: Deadline(seconds: seconds))
    } catch {
      throw failed(address, "\(error)")
    }
    guard let context = SSL_CTX_new(TLS_client_method()) else { throw failed(address, OpenSSLReasons.take()) }
    defer { SSL_CTX_free(context) }
    // To show an old server's certificate is no harm; to refuse it would help nobody.
    SSL_CTX_set_security_level(context, 0)
    guard let ssl = SSL_new(context), SSL_set_fd(ssl, client.descriptor) == 1 else {
      throw failed(address, OpenSSLReasons.take())
    }
    defer { SSL_free(ssl) }
    if SocketAddress(literal: name, port: 0) == nil { _ = copenssl_set_tlsext_host_name(ssl, name) }
    let failure = client.handshake(ssl)
    // A server that demands a certificate of ours has shown its own by then.
    guard let leaf = copenssl_get0_peer_certificate(ssl) else {
      throw failed(address, failure ?? "it presented no certificate")
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
