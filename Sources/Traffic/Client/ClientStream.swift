package import HTTP
public import Transport

/// One request and its response on a client's connection. An exchange reaches its client only through this class. An
/// HTTP/1 connection has one stream, an HTTP/2 connection has many, and tests have a stream in memory.
///
/// Every stream keeps these rules:
/// - The request's body starts paused. A paused body delivers no events.
/// - A write takes all of its bytes. When `waitingBytes` passes the handler's watermark, the handler pauses the source.
/// - Order of the response: `sendInterim`…, `send(head)`, `send(body)`…, `end`, `release`. `cut` is possible at any time, and
///   no event comes after it.
/// - Only `resumeBody` delivers events before it returns, so the caller must do nothing after it.
/// - Bytes of an event are valid during the call.
/// - The deadline is the stream's own (`EventTarget.setDeadline`), for as long as the exchange has the stream.
open class ClientStream: EventTarget {
  package final let session: ClientSession
  // Retained and released by hand, because every event reads this reference.
  @exclusivity(unchecked) private final var exchangeRef: Unmanaged<Exchange>?
  /// The exchange that gets the stream's events; nil between two exchanges.
  package final var exchange: Exchange? {
    get { exchangeRef?.takeUnretainedValue() }
    set {
      exchangeRef?.release()
      exchangeRef = newValue.map { Unmanaged.passRetained($0) }
    }
  }

  /// Calls the exchange without retaining it. The caller must ensure that the exchange stays alive during the call.
  @inline(__always)
  final func withExchange<Value>(_ body: (Exchange) -> Value) -> Value? {
    exchangeRef?._withUnsafeGuaranteedRef { body($0) }
  }

  deinit { exchangeRef?.release() }

  /// Whose stream it is.
  public enum Role {
    case client
    /// A request that sallyport begins itself (`Subrequest`).
    case subrequest
    /// A question whether a location admits the client (`ReadingProbe`).
    case reading
  }
  package final let role: Role
  /// Whether the stream is no client's.
  package final var isSubrequest: Bool { role == .subrequest || role == .reading }

  package init(_ session: ClientSession) {
    self.session = session
    role = .client
    super.init(loop: session.transport.loop)
  }

  package init(_ session: ClientSession, role: Role) {
    self.session = session
    self.role = role
    super.init(loop: session.transport.loop)
  }

  /// The generation whose slots the exchange's variables have.
  package var live: LiveGeneration { session.live }
  /// The exchange of a subrequest ends. Its values can still be read. Returns whether the access log gets a line.
  open func subrequestWillEnd(_ exchange: Exchange, _ reason: EndReason) -> Bool { true }

  /// The phases have admitted the client of a `ReadingProbe`, whose content never begins.
  open func didAdmit() {}

  /// The number of the stream's request on its connection, from 1: nginx's `$connection_requests`.
  final var requestNumber = 0

  /// Whether bytes of the request had arrived before the response to the earlier one was complete: nginx's `$pipe`.
  final var isPipelined = false

  /// Whether the client's handshake isn't over, so that the request may be a replay (RFC 8470 §3).
  package final var isEarly: Bool { session.isEarly }

  // MARK: The request

  /// Whether the stream has read the whole request.
  package var isBodyRead: Bool { true }
  /// Whether the client has ended its side of the connection. It may still read a response.
  var hasClientEnded: Bool { false }
  /// Whether the client reads no response: the connection is closed, or it is one of HTTP/2 whose client has ended it.
  package var hasClientLeft: Bool { false }
  /// Delivers bytes of the body from now on, perhaps before this returns.
  package func resumeBody() {}
  package func pauseBody() {}
  /// Discards the bytes of the body that have arrived; a small body ends with them. No event of the body comes after
  /// this.
  package func discardBody() {}

  // MARK: The response

  /// Bytes of the response that the client has not taken yet.
  package var waitingBytes: Int { 0 }
  /// The number of response bytes passed to the transport on this connection: nginx's `$bytes_sent`. It includes heads
  /// and excludes TLS overhead.
  package var sentBytes: UInt64 { 0 }
  /// Whether the framing of the response allows trailers.
  package var takesTrailers: Bool { false }
  /// Sends an interim response without fields, where the client's version knows them (RFC 9110 §15.2).
  package func sendInterim(_ status: UInt16) {}
  /// Sends an interim response with fields, where the client's version knows them.
  package func sendInterim(head: OutgoingResponseHead) {}
  package func send(head: OutgoingResponseHead) {}
  package func send(body bytes: UnsafeRawBufferPointer) {}
  /// Ends the response.
  package func end(_ trailers: Trailers?) {}
  /// Forwards bytes unchanged in both directions, after a 101.
  package func becomeTunnel() {}
  /// Makes the connection close after this response.
  package func closeAfterResponse() {}
  /// Starts a deadline: the client must take some of the waiting bytes in every `timeout` milliseconds.
  package func watchSending(_ timeout: Int) {}

  // MARK: Ends

  /// Keeps an object of an exchange that ends, for as long as bytes of its response wait in the stream.
  package func hold(_ object: AnyObject) {}
  /// Ends the exchange's use of the stream: the client may send its next request. The exchange gets no more events.
  package func release() {}
  /// Abandons an incomplete response. The stream ends so that the client can't take the part for a complete response.
  package func cut(_ reason: EndReason) {}
}
