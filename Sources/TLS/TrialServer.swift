import COpenSSL
package import Crypto
import Glibc
import Negotiation

/// A server that has a fault on purpose, for tests of clients (`sallyport demo --bad-servers`). Nothing that matters may be
/// behind it: at OpenSSL's security level 0, it takes every client.
///
/// A thread serves one connection and may wait. Never use it on an event loop.
// @unchecked: nothing changes the SSL_CTX after `init`, and OpenSSL locks its reference count.
package final class TrialServer: @unchecked Sendable {
  package struct Terms: Sendable {
    /// What the server shows: the certificate, and of its chain what is sent.
    package var identity: CertifiedKey
    /// Only TLS 1.0 and 1.1.
    package var speaksOldVersions = false
    /// The OCSP response for clients that ask for one; nil: no response.
    package var staple: [UInt8]?

    package init(identity: CertifiedKey) { self.identity = identity }
  }

  /// What a client did.
  package enum Outcome: Sendable, Equatable {
    /// It sent bytes of a request, so it took the server for the one that it wanted.
    case asked
    /// Why it sent nothing.
    case refused(String)
  }

  private let context: OpaquePointer
  /// For the callback, which gets a pointer to it.
  private let staple: StapledBytes
  private static let mostBytes = 16 * 1024

  package init(_ terms: Terms) throws(TLSSettingsError) {
    guard let context = SSL_CTX_new(TLS_server_method()) else {
      throw TLSSettingsError("OpenSSL gives no context: \(OpenSSLReasons.words())")
    }
    self.context = context
    staple = StapledBytes(terms.staple ?? [])
    SSL_CTX_set_security_level(context, 0)
    SSL_CTX_set_options(context, COPENSSL_OP_NO_COMPRESSION | COPENSSL_OP_NO_RENEGOTIATION | COPENSSL_OP_NO_TICKET)
    // A resumed session has no certificate for the client to judge.
    _ = SSL_CTX_set_num_tickets(context, 0)
    _ = copenssl_ctx_set_min_proto(context, terms.speaksOldVersions ? TLS1_VERSION : TLS1_2_VERSION)
    _ = copenssl_ctx_set_max_proto(context, terms.speaksOldVersions ? TLS1_1_VERSION : TLS1_3_VERSION)
    try ContextBasics.use(terms.identity, on: context)
    guard terms.staple != nil else { return }
    _ = copenssl_ctx_set_status_cb(context, Self.answer)
    _ = copenssl_ctx_set_status_arg(context, Unmanaged.passUnretained(staple).toOpaque())
  }

  deinit { SSL_CTX_free(context) }

  /// SSL_CTX_set_tlsext_status_cb. OpenSSL frees the copy.
  private static let answer: @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Int32 = { ssl, argument in
    guard let ssl, let argument else { return SSL_TLSEXT_ERR_NOACK }
    let bytes = Unmanaged<StapledBytes>.fromOpaque(argument).takeUnretainedValue().bytes
    guard let copy = copenssl_malloc(bytes.count) else { return SSL_TLSEXT_ERR_NOACK }
    bytes.withUnsafeBytes {
      UnsafeMutableRawPointer(copy).copyMemory(from: $0.baseAddress ?? .init(copy), byteCount: $0.count)
    }
    guard copenssl_set_status_response(ssl, copy, Int32(clamping: bytes.count)) == 1 else {
      return SSL_TLSEXT_ERR_ALERT_FATAL
    }
    return SSL_TLSEXT_ERR_OK
  }

  /// The name by which a client asks, in lower case; nil: the ClientHello has none, is malformed, or doesn't come in time.
  /// Its bytes stay with the connection.
  package static func serverName(askedOn descriptor: Int32, seconds: Int) -> String? {
    let deadline = Deadline(seconds: seconds)
    var bytes = [UInt8](repeating: 0, count: mostBytes)
    while deadline.wait(for: descriptor, Int16(POLLIN)) {
      let count = recv(descriptor, &bytes, bytes.count, Int32(truncatingIfNeeded: MSG_PEEK))
      guard count > 0 else { return nil }
      switch bytes.withUnsafeBytes({ ClientHelloReader.read(UnsafeRawBufferPointer(rebasing: $0.prefix(count))) }) {
      case .hello(let facts):
        return facts.serverName.isEmpty ? nil : String(decoding: facts.serverName, as: UTF8.self)
      case .notTLS: return nil
      case .incomplete:
        guard count < bytes.count else { return nil }
        // What has come stays unread, so the socket remains readable until more comes.
        deadline.pause(milliseconds: 10)
      }
    }
    return nil
  }

  /// Serves one request, and closes the connection. `respond` gets the first bytes of the request, up to the end of its
  /// head, and returns the whole response.
  package func serve(_ descriptor: Int32, seconds: Int, respond: ([UInt8]) -> [UInt8]) -> Outcome {
    let client = WaitingClient(accepted: descriptor, by: Deadline(seconds: seconds))
    guard let ssl = SSL_new(context), SSL_set_fd(ssl, client.descriptor) == 1 else {
      return .refused(OpenSSLReasons.words())
    }
    defer { SSL_free(ssl) }
    switch client.perform(ssl, { SSL_accept($0) }) {
    case .done: break
    case .ended: return .refused("it ended the connection in the handshake")
    case .late: return .refused("it did not end the handshake within \(seconds) seconds")
    case .failed(let reason): return .refused(reason)
    }
    var request: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: Self.mostBytes)
    reading: while request.count < Self.mostBytes, !Self.isWholeHead(request) {
      switch client.perform(ssl, { SSL_read($0, &buffer, Int32(buffer.count)) }) {
      case .done(let count): request += buffer[..<Int(count)]
      case .ended where request.isEmpty: return .refused("it ended the connection after the handshake")
      case .late where request.isEmpty: return .refused("it sent nothing within \(seconds) seconds")
      case .failed(let reason) where request.isEmpty: return .refused(reason)
      case .ended, .late, .failed: break reading
      }
    }
    let response = respond(request)
    if case .done = client.perform(ssl, { SSL_write($0, response, Int32(clamping: response.count)) }) {
      _ = SSL_shutdown(ssl)
    }
    return .asked
  }

  private static func isWholeHead(_ bytes: [UInt8]) -> Bool {
    let end = Array("\r\n\r\n".utf8)
    return bytes.count >= end.count
      && bytes.indices.dropLast(end.count - 1).contains { bytes[$0..<$0 + end.count].elementsEqual(end) }
  }
}

private final class StapledBytes: Sendable {
  let bytes: [UInt8]

  init(_ bytes: [UInt8]) { self.bytes = bytes }
}
