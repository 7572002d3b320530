import COpenSSL
package import Crypto
import Glibc
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
    let deadline = Deadline(seconds: seconds)
    let descriptor = try connect(to: address, deadline)
    defer { close(descriptor) }
    guard let context = SSL_CTX_new(TLS_client_method()) else { throw failed(address, OpenSSLReasons.take()) }
    defer { SSL_CTX_free(context) }
    // To show an old server's certificate is no harm; to refuse it would help nobody.
    SSL_CTX_set_security_level(context, 0)
    guard let ssl = SSL_new(context), SSL_set_fd(ssl, descriptor) == 1 else {
      throw failed(address, OpenSSLReasons.take())
    }
    defer { SSL_free(ssl) }
    if SocketAddress(literal: name, port: 0) == nil { _ = copenssl_set_tlsext_host_name(ssl, name) }
    let failure = handshake(ssl, descriptor, deadline)
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

  private static func connect(to address: SocketAddress, _ deadline: Deadline) throws(CertificateFetchError) -> Int32 {
    do throws(SocketError) {
      let descriptor = try Sockets.connect(to: address)
      var code: Int32 = 0
      var length = socklen_t(MemoryLayout<Int32>.size)
      if !deadline.wait(for: descriptor, Int16(POLLOUT)) {
        code = ETIMEDOUT
      } else {
        getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &length)
      }
      guard code == 0 else {
        close(descriptor)
        throw SocketError("connect", code)
      }
      return descriptor
    } catch {
      throw failed(address, "\(error)")
    }
  }

  /// nil when it came to its end.
  private static func handshake(_ ssl: OpaquePointer, _ descriptor: Int32, _ deadline: Deadline) -> String? {
    while true {
      ERR_clear_error()
      let result = SSL_connect(ssl)
      if result == 1 { return nil }
      let awaited: Int16
      switch SSL_get_error(ssl, result) {
      case SSL_ERROR_WANT_READ: awaited = Int16(POLLIN)
      case SSL_ERROR_WANT_WRITE: awaited = Int16(POLLOUT)
      case SSL_ERROR_SYSCALL where ERR_peek_error() == 0:
        return "the connection ended in the TLS handshake"
      default: return "TLS handshake: \(OpenSSLReasons.take())"
      }
      guard deadline.wait(for: descriptor, awaited) else { return "no answer in the TLS handshake in time" }
    }
  }

  private static func failed(_ address: SocketAddress, _ reason: String) -> CertificateFetchError {
    CertificateFetchError(description: "\(address): \(reason)")
  }
}

/// An instant that waiting never goes past.
private struct Deadline {
  private let end: Int64

  init(seconds: Int) { end = Self.now &+ Int64(clamping: seconds) &* 1000 }

  private static var now: Int64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Int64(time.tv_sec) &* 1000 &+ Int64(time.tv_nsec) / 1_000_000
  }

  /// False when the time is over.
  func wait(for descriptor: Int32, _ events: Int16) -> Bool {
    while true {
      let left = end - Self.now
      guard left > 0 else { return false }
      var entry = pollfd(fd: descriptor, events: events, revents: 0)
      let count = poll(&entry, 1, Int32(clamping: left))
      if count > 0 { return true }
      if count < 0 && errno != EINTR { return false }
    }
  }
}
