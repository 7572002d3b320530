import COpenSSL
import Transport

/// How many messages a client may send after its handshake that make work and carry nothing: KeyUpdate of TLS 1.3
/// (RFC 8446 §4.6.3), and in TLS 1.2 each attempt to renegotiate, which sallyport refuses. Pure: the caller brings the time
/// (milliseconds of one monotonic clock).
///
/// Clients send a KeyUpdate after gigabytes. OpenSSL has no limit, and reads on within one call as long as they come.
struct MessageBudget {
  static let most = 32
  /// Milliseconds after which one more is allowed.
  static let pause: UInt64 = 1000

  private var left = MessageBudget.most
  private var countedAt: UInt64 = 0

  mutating func take(now: UInt64) -> Bool {
    let more = now >= countedAt ? (now - countedAt) / Self.pause : 0
    if more > 0 {
      left = min(Self.most, left + Int(clamping: min(more, UInt64(Self.most))))
      countedAt = now
    }
    guard left > 0 else { return false }
    left -= 1
    return true
  }
}

extension TLSStream {
  package static let floodReason = "client sent too many messages of the TLS handshake after it"

  /// Counts what the client sends after the handshake. Set when the handshake is over, so that it costs nothing there.
  func watchMessages(_ ssl: OpaquePointer) { SSL_set_info_callback(ssl, Self.noteMessage) }

  /// SSL_set_info_callback. OpenSSL calls it before it takes a message, so a message after the handshake comes in the
  /// state TLS_ST_OK.
  private static let noteMessage: @convention(c) (OpaquePointer?, Int32, Int32) -> Void = { ssl, place, value in
    let isMessage = place & Int32(SSL_CB_LOOP) != 0 && SSL_get_state(ssl) == TLS_ST_OK
    let isRefusal = place & Int32(SSL_CB_ALERT) != 0 && value & 0xFF == SSL_AD_NO_RENEGOTIATION
    guard isMessage || isRefusal, let stream = TLSStream.of(ssl) else { return }
    if !stream.messages.take(now: stream.loop.now) { stream.isFlooding = true }
  }
}
