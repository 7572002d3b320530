import HTTP
import Transport

/// One request and its response on a client's connection: all that an exchange knows of its client. An HTTP/1
/// connection has one stream, an HTTP/2 connection has many, and tests have one in memory.
///
/// Every stream keeps these rules:
/// - The request's body starts paused. While it is paused no event of the body comes.
/// - A write takes all of its bytes. When `waitingBytes` passes the handler's watermark, the handler pauses the source.
/// - Order of the response: `sendInterim`…, `send(head)`, `send(body)`…, `end`, `release`. `cut` is possible at any time, and
///   no event comes after it.
/// - Only `resumeBody` delivers events before it returns, so the caller must do nothing after it.
/// - Bytes of an event are valid during the call.
/// - The deadline is the stream's own (`EventTarget.setDeadline`), for as long as the exchange has the stream.
class ClientStream: EventTarget {
  final let session: ClientSession
  // Counted by hand: every event comes by here.
  @exclusivity(unchecked) private final var exchangeRef: Unmanaged<Exchange>?
  /// The exchange that gets the stream's events; nil between two exchanges.
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

  /// Whether the client's handshake isn't over, so that the request may be a replay (RFC 8470 §3).
  final var isEarly: Bool { session.isEarly }

  // MARK: The request

  /// Whether the whole request has been read.
  var isBodyRead: Bool { true }
  /// Whether the client has ended its side, and so reads no response, or the connection is closed.
  var hasClientLeft: Bool { false }
  /// Delivers bytes of the body from now on, perhaps before this returns.
  func resumeBody() {}
  func pauseBody() {}
  /// Discards the bytes of the body that have arrived; a small body ends with them. No event of the body comes after
  /// this.
  func discardBody() {}

  // MARK: The response

  /// Bytes of the response that the client has not taken yet.
  var waitingBytes: Int { 0 }
  /// Bytes of responses handed to the transport on this connection, heads included and TLS not: what nginx's
  /// `$bytes_sent` counts.
  var sentBytes: UInt64 { 0 }
  /// Whether the framing of the response allows trailers.
  var takesTrailers: Bool { false }
  /// Sends an interim response without fields, where the client's version knows them (RFC 9110 §15.2).
  func sendInterim(_ status: UInt16) {}
  func send(head: OutgoingResponseHead) {}
  func send(body bytes: UnsafeRawBufferPointer) {}
  /// Ends the response.
  func end(_ trailers: Trailers?) {}
  /// Forwards bytes unchanged in both directions, after a 101.
  func becomeTunnel() {}
  /// Makes the connection close after this response.
  func closeAfterResponse() {}
  /// Starts a deadline: the client must take some of the waiting bytes in every `timeout` milliseconds.
  func watchSending(_ timeout: Int) {}

  // MARK: Ends

  /// The exchange is over: the client may make its next request. The exchange hears of nothing any more.
  func release() {}
  /// The response will not be completed: ends so that the client does not take a part of it for all.
  func cut(_ reason: EndReason) {}
}
