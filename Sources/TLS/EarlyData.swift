import Bytes
import COpenSSL

/// Reads the early data of a client (RFC 8446 §2.3).
///
/// An attacker can replay early data. The server therefore accepts early data only with a session that it hands out
/// once: one from its store, not one from an encrypted ticket. HTTP decides what such a request may do (RFC 8470).
final class EarlyData {
  /// The largest number of octets of early data: one record.
  static let limit: UInt32 = 16384

  private(set) var bytes = ByteBuffer()
  private var hasEnded = false

  enum Progress {
    /// More early data, or more of the handshake, may arrive.
    case waits
    /// All early data was read; the handshake continues.
    case ended
    /// An error of SSL_get_error(3).
    case failed(Int32)
  }

  func read(from ssl: OpaquePointer) -> Progress {
    while !hasEnded {
      bytes.reserve(Int(Self.limit))
      var count = 0
      ERR_clear_error()
      switch SSL_read_early_data(ssl, bytes.writable.baseAddress, bytes.writable.count, &count) {
      case SSL_READ_EARLY_DATA_SUCCESS: bytes.didWrite(count)
      case SSL_READ_EARLY_DATA_FINISH: hasEnded = true
      default:
        let error = SSL_get_error(ssl, 0)
        // WANT_X509_LOOKUP: the server's certificate is being loaded.
        return [SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE, SSL_ERROR_WANT_X509_LOOKUP].contains(error)
          ? .waits : .failed(error)
      }
    }
    return .ended
  }

  func take(into target: UnsafeMutableRawBufferPointer) -> Int {
    let part = bytes.readable.prefix(target.count)
    target.copyMemory(from: UnsafeRawBufferPointer(rebasing: part))
    bytes.consume(part.count)
    return part.count
  }
}

extension TLSStream {
  /// SSL_CTX_set_allow_early_data_cb: allows early data only under the server name of the session (RFC 8446 §4.2.10).
  static let allowsEarlyData: @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Int32 = { ssl, _ in
    guard let stream = TLSStream.of(ssl), let context = stream.serverContext, context.takesEarlyData,
      let origin = stream.foundOrigin
    else { return 0 }
    return origin.serverName == stream.serverName ? 1 : 0
  }
}

extension ServerTLSSettings {
  /// Returns why the server refuses early data, whatever `ssl_early_data` says; nil when nothing prevents early data.
  public var earlyDataHindrance: String? {
    if !versions.contains(.tls13) { return "TLSv1.3 is not among ssl_protocols" }
    if sessionCache == .off { return "no session is kept with ssl_session_cache off" }
    if !ticketKeys.isEmpty || ticketStore != nil, sessionTickets {
      return "with ssl_session_ticket_key a session may be used twice, so what came with it may be a replay"
    }
    // The server must not answer a client before the responders have answered.
    if clientStatus.extent != .off { return "the responders of ssl_ocsp are asked when the handshake is over" }
    return nil
  }
}
