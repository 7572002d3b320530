import Bytes
import COpenSSL

/// What a client says before its handshake is over (RFC 8446 §2.3).
///
/// Anybody can send the same bytes again, so they are taken with a session only that is given away once: the store's,
/// not that of a sealed ticket. What may be done with them is for HTTP to say (RFC 8470).
final class EarlyData {
  /// The most octets that OpenSSL takes: one record.
  static let limit: UInt32 = 16384

  private(set) var bytes = ByteBuffer()
  private var hasEnded = false

  enum Progress {
    /// More of it, or of the handshake, may come.
    case waits
    /// The handshake goes on.
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
        return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? .waits : .failed(error)
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
  /// SSL_CTX_set_allow_early_data_cb: only under the name that the session was made for (RFC 8446 §4.2.10).
  static let allowsEarlyData: @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Int32 = { ssl, _ in
    guard let stream = TLSStream.of(ssl), let context = stream.serverContext, context.takesEarlyData,
      let origin = stream.foundOrigin
    else { return 0 }
    return origin.serverName == stream.serverName ? 1 : 0
  }
}

extension ServerTLSSettings {
  /// Why early data is not taken, whatever `ssl_early_data` says; nil: it is.
  public var earlyDataHindrance: String? {
    if !versions.contains(.tls13) { return "TLSv1.3 is not among ssl_protocols" }
    if sessionCache == .off { return "no session is kept with ssl_session_cache off" }
    if !ticketKeys.isEmpty && sessionTickets {
      return "with ssl_session_ticket_key a session may be used twice, so what came with it may be a replay"
    }
    // Nobody may be answered before they have spoken.
    if clientStatus.extent != .off { return "the responders of ssl_ocsp are asked when the handshake is over" }
    return nil
  }
}
