public import Bytes
public import HTTP
public import Transport

/// The protocol that sallyport speaks to an upstream: `proxy_http_version`, that of a feature, or none of its own in `stream`.
public enum UpstreamVersion: Sendable, Hashable {
  case http10, http11, http2
  /// The bytes of the client, as they are.
  case tcp
  case wire(UpstreamWire)

  /// What tells connections apart: one of another kind never serves.
  public var connection: UpstreamConnection {
    switch self {
    case .http10, .http11: .http1
    case .http2: .http2
    case .tcp: .tcp
    case .wire(let wire): .wire(wire)
    }
  }

  /// Whether a head must say how long the request's body is.
  public var needsLength: Bool {
    switch self {
    case .http10: true
    case .http11, .http2, .tcp: false
    case .wire(let wire): wire.needsLength
    }
  }
}

/// What a connection to an upstream carries.
public enum UpstreamConnection: Sendable, Hashable {
  case http1, http2, tcp
  case wire(UpstreamWire)
}

/// One attempt's request and response. A serial session has one stream after another, an HTTP/2 session has many.
///
/// Order of calls: `send(head:)`, `send(body:)`…, `requestDidEnd`; `abandon` at any time. The observer gets the
/// response.
public class UpstreamStream: EventTarget {
  public final let session: UpstreamSession
  // Retained and released by hand, because every event reads this reference.
  final var observerRef: Unmanaged<AttemptObserver>?
  final var observer: AttemptObserver? {
    get { observerRef?.takeUnretainedValue() }
    set {
      observerRef?.release()
      observerRef = newValue.map { Unmanaged.passRetained($0) }
    }
  }
  final var timeouts = UpstreamTimeouts(), limits = HeadLimits()
  /// The server as the balancer gave it to this attempt; nil before the attempt and after its end, which is told once. A
  /// session has many attempts at a time, whose tickets differ where the group's list changed between them.
  private final var ticket: ServerTicket?
  /// When the attempt began, and what is known of its times; nil unless the group's method asks for times.
  private final var clock: (beganAt: UInt64, times: AttemptTimes)?
  /// Bytes of this attempt, without TLS. While `bytesReceived` is 0, the upstream may not have seen the request.
  public final internal(set) var bytesReceived: UInt64 = 0, bytesSent: UInt64 = 0

  /// Each interim response restarts `proxy_read_timeout`. Without a limit, an upstream could do this forever.
  static let interimLimit = 100

  init(_ session: UpstreamSession) {
    self.session = session
    super.init(loop: session.transport.loop)
  }

  deinit { observerRef?.release() }

  /// Calls the observer without retaining it: its owner keeps it beyond the event in which the attempt ends.
  @inline(__always)
  final func withObserver<Value>(_ body: (AttemptObserver) -> Value) -> Value? {
    observerRef?._withUnsafeGuaranteedRef { body($0) }
  }

  final var hasObserver: Bool { observerRef != nil }

  func begin(_ observer: AttemptObserver, _ settings: AttemptSettings, on ticket: ServerTicket?) {
    self.observer = observer
    self.ticket = ticket
    timeouts = settings.timeouts
    limits = settings.headLimits
    if session.group.measuresTime { clock = (loop.now, AttemptTimes()) }
  }

  /// Goes on with the attempt of another stream of the session, which no longer reports its end.
  final func continueAttempt(of other: UpstreamStream) {
    (clock, ticket) = (other.clock, other.ticket)
    other.ticket = nil
  }

  /// Notes that the head of the final response has come; in `stream`, that the time of the group's method has. Only the
  /// first call counts.
  @inline(__always)
  final func noteHead() { if clock != nil { tellHead() } }

  @inline(never)
  private func tellHead() {
    guard let began = clock?.beganAt, clock?.times.hasToldHead == false else { return }
    let age = loop.now &- began
    clock?.times.header = age
    clock?.times.hasToldHead = true
    if let ticket { session.group.headDidCome(ticket, after: age) }
  }

  /// Tells the group that the server has taken the connection, in a protocol whose attempts can last for days.
  final func noteConnected() { if let ticket { session.group.didConnect(ticket) } }

  /// Reports the end of the attempt to the group; the session may continue.
  final func reportEnd(_ result: Balancer.AttemptResult) {
    if let began = clock?.beganAt { clock?.times.whole = loop.now &- began }
    let times = clock?.times
    clock = nil
    if let ticket = ticket.take() { borrowing(session) { borrowing($0.group) { $0.end(ticket, result, times) } } }
  }

  /// Whether an attempt is in progress.
  public var isOpen: Bool { false }
  /// Whether the session served before this attempt, so that the upstream may have closed it meanwhile.
  public var isOnKeptSession: Bool { session.requestsServed > 1 }

  /// Whether the upstream can say that it has not processed a request, which may then be sent again.
  public var mayBeRefused: Bool { false }

  // MARK: The request

  /// Sends a head. `scratch`: the buffer for its text, which the caller wipes if the text held credentials. `method`:
  /// that of the request, which decides how the response is framed.
  public func send(
    head: OutgoingRequestHead, _ version: UpstreamVersion, _ method: HTTP.Method, scratch: inout ByteBuffer
  ) {}
  /// Sends bytes of the request's body.
  public func send(body bytes: UnsafeRawBufferPointer) {}
  /// Ends the request and starts the wait for the response.
  public func requestDidEnd(_ trailers: Trailers? = nil) {}
  /// Bytes of the request that the upstream has not taken yet.
  public var waitingBytes: Int { 0 }
  /// See `ByteStream.keepBuffers`.
  public final func keepBuffers() { session.transport.keepBuffers() }
  public final func releaseBuffers() { session.transport.releaseBuffers() }
  /// Sends what was written at once, where that makes room for more.
  public func flush() {}

  // MARK: The response

  /// Marks the response as a challenge. After it, the observer sends another request to the same server.
  public func askAgain() {}
  public func pause() {}
  public func resume() {}
  /// Forwards bytes unchanged in both directions, after a 101.
  public func becomeTunnel() {}
  /// Gives up the attempt. `isFailure`: the attempt counts as a failure of the server.
  public func abandon(isFailure: Bool = false) {}

  // MARK: Events of the session

  /// The session is open: begin the request.
  func open() {}
  func fail(_ failure: AttemptFailure) {}
}
