import HTTP
import Transport

/// What an exchange knows of its client: one request and its response on a client's connection. HTTP/1 has one stream a
/// connection, HTTP/2 many, and tests have one in memory.
///
/// What holds for each of them:
/// - The request's body starts paused. While it is paused no event of the body comes.
/// - A write takes all of its bytes. When `waitingBytes` passes the exchange's bound, the exchange pauses the source.
/// - Order of the response: `sendInterim`…, `send(head)`, `send(body)`…, `end`, `release`. `cut` is possible at any time, and
///   no event comes after it.
/// - Only `resumeBody` delivers events before it returns: it is the caller's last act.
/// - Bytes of an event are valid during the call.
/// - The deadline is the stream's own (`EventTarget.setDeadline`), for as long as the exchange has the stream.
class ClientStream: EventTarget {
  final let session: ClientSession
  // Counted by hand: every event comes by here.
  @exclusivity(unchecked) private final var exchangeRef: Unmanaged<Exchange>?
  /// Who hears of the stream; nil between two exchanges.
  final var exchange: Exchange? {
    get { exchangeRef?.takeUnretainedValue() }
    set {
      exchangeRef?.release()
      exchangeRef = newValue.map { Unmanaged.passRetained($0) }
    }
  }

  /// Calls the exchange without counting it. It must not end within the call.
  @inline(__always)
  final func withExchange<Value>(_ body: (Exchange) -> Value) -> Value? {
    exchangeRef?._withUnsafeGuaranteedRef { body($0) }
  }

  deinit { exchangeRef?.release() }

  init(_ session: ClientSession) {
    self.session = session
    super.init(loop: session.transport.loop)
  }

  /// The client's handshake is not over: the request may be a replay (RFC 8470 §3).
  final var isEarly: Bool { session.isEarly }

  // MARK: The request

  /// Whether the whole request has been read.
  var isBodyRead: Bool { true }
  /// The client has ended its side, so that nobody will read a response, or the connection is gone.
  var hasClientLeft: Bool { false }
  /// Lets bytes of the body come, perhaps before this returns.
  func resumeBody() {}
  func pauseBody() {}
  /// Throws away what of the body is at hand; a small body is over with it. No event of the body comes any more.
  func discardBody() {}

  // MARK: The response

  /// Bytes of the response that the client has not taken yet.
  var waitingBytes: Int { 0 }
  /// Bytes of responses handed to the transport on this connection, heads included and TLS not: what nginx's
  /// `$bytes_sent` counts.
  var sentBytes: UInt64 { 0 }
  /// The response has room for trailers.
  var takesTrailers: Bool { false }
  /// Sends an interim response without fields, where the client's version knows them (RFC 9110 §15.2).
  func sendInterim(_ status: UInt16) {}
  func send(head: OutgoingResponseHead) {}
  func send(body bytes: UnsafeRawBufferPointer) {}
  /// The response is whole.
  func end(_ trailers: Trailers?) {}
  /// After the 101: bytes go both ways as they are.
  func becomeTunnel() {}
  /// The connection takes no request after this one.
  func closeAfterResponse() {}
  /// From now on the client must take something of what waits for it in every `timeout` milliseconds.
  func watchSending(_ timeout: Int) {}

  // MARK: Ends

  /// The exchange is over: the client may make its next request. The exchange hears of nothing any more.
  func release() {}
  /// The response will not be completed: ends so that the client does not take a part of it for all.
  func cut(_ reason: EndReason) {}
}
