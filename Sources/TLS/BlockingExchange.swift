import COpenSSL
import Glibc
package import Transport

/// Why one request over TLS got no whole answer.
package struct BlockingExchangeError: Error, Sendable, CustomStringConvertible {
  package let description: String
}

/// One request and its answer over a connection of its own, on a thread that may wait. Never use it on an event loop.
///
/// With TLS, the server is judged by the context before the first byte of the request goes out. The connection carries
/// nothing else and is not kept.
package struct BlockingExchange: Sendable {
  /// nil: without TLS.
  private let context: UpstreamTLSContext?
  /// For SNI and the name check: a host, or an IP address without brackets.
  private let name: String
  /// For everything together.
  private let seconds: Int

  package init(context: UpstreamTLSContext?, name: String, seconds: Int) {
    self.context = context
    self.name = name
    self.seconds = seconds
  }

  /// Sends the request and gives the answer to `receive` piece by piece, until it returns false or the server ends the
  /// answer. Returns whether the server ended it in good order (close_notify, or a FIN without TLS), which matters where
  /// nothing else says how long it is.
  package func perform(
    at address: SocketAddress, _ request: [UInt8], receive: (UnsafeRawBufferPointer) -> Bool
  ) throws(BlockingExchangeError) -> Bool {
    let client: WaitingClient
    do throws(SocketError) {
      client = try WaitingClient(to: address, by: Deadline(seconds: seconds))
    } catch {
      throw BlockingExchangeError(description: "\(address): \(error)")
    }
    func failed(_ reason: String) -> BlockingExchangeError {
      BlockingExchangeError(description: "\(address): \(reason)")
    }
    guard let context else { return try perform(client, request, failed, receive) }
    guard let ssl = SSL_new(context.handle) else { throw failed(OpenSSLReasons.words()) }
    defer { SSL_free(ssl) }
    // The context judges after the handshake: its callback needs a stream of an event loop.
    SSL_set_verify(ssl, SSL_VERIFY_NONE, nil)
    // Otherwise OpenSSL reads on by itself while a server sends messages, without a look at the time.
    _ = SSL_ctrl(ssl, SSL_CTRL_CLEAR_MODE, Int(SSL_MODE_AUTO_RETRY), nil)
    guard SSL_set_fd(ssl, client.descriptor) == 1 else { throw failed(OpenSSLReasons.words()) }
    if SocketAddress(literal: name, port: 0) == nil { _ = copenssl_set_tlsext_host_name(ssl, name) }
    if let failure = client.handshake(ssl) { throw failed(failure.words) }
    if case .refused(let refusal) = context.judgeAgain(ssl, name: name).result { throw failed("\(refusal)") }
    var sent = 0
    while sent < request.count {
      let rest = Array(request[sent...])
      switch client.perform(ssl, { SSL_write($0, rest, Int32(clamping: rest.count)) }) {
      case .done(let count): sent += Int(count)
      case .ended: throw failed("the connection ended before the request was sent")
      case .late: throw failed("the request could not be sent within \(seconds) seconds")
      case .failed(let reason): throw failed(reason)
      }
    }
    var buffer = [UInt8](repeating: 0, count: 16 * 1024)
    while true {
      switch client.perform(ssl, { SSL_read($0, &buffer, Int32(buffer.count)) }) {
      case .done(let count):
        guard buffer.withUnsafeBytes({ receive(UnsafeRawBufferPointer(rebasing: $0.prefix(Int(count)))) }) else {
          return true
        }
      case .ended: return SSL_get_shutdown(ssl) & SSL_RECEIVED_SHUTDOWN != 0
      case .late: throw failed("no whole answer within \(seconds) seconds")
      case .failed(let reason): throw failed(reason)
      }
    }
  }

  private func perform(
    _ client: borrowing WaitingClient, _ request: [UInt8], _ failed: (String) -> BlockingExchangeError,
    _ receive: (UnsafeRawBufferPointer) -> Bool
  ) throws(BlockingExchangeError) -> Bool {
    var sent = 0
    while sent < request.count {
      guard client.deadline.wait(for: client.descriptor, Int16(POLLOUT)) else {
        throw failed("the request could not be sent within \(seconds) seconds")
      }
      let count = request[sent...].withUnsafeBytes {
        send(client.descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
      }
      if count < 0, errno == EAGAIN || errno == EINTR { continue }
      guard count > 0 else { throw failed(String(cString: strerror(errno))) }
      sent += count
    }
    var buffer = [UInt8](repeating: 0, count: 16 * 1024)
    while true {
      guard client.deadline.wait(for: client.descriptor, Int16(POLLIN)) else {
        throw failed("no whole answer within \(seconds) seconds")
      }
      let count = read(client.descriptor, &buffer, buffer.count)
      if count < 0, errno == EAGAIN || errno == EINTR { continue }
      guard count >= 0 else { throw failed(String(cString: strerror(errno))) }
      if count == 0 { return true }
      guard buffer.withUnsafeBytes({ receive(UnsafeRawBufferPointer(rebasing: $0.prefix(count))) }) else { return true }
    }
  }
}
