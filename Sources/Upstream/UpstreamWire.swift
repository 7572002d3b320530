public import Bytes
public import HTTP

/// A protocol other than HTTP in which a feature speaks to upstreams: FastCGI, for example. It tells connections apart by its
/// identity, so a feature makes it once.
public final class UpstreamWire: Sendable, Hashable {
  /// How a response of the protocol ends.
  public enum End: Sendable {
    /// By a message of its own, behind which the session may serve again.
    case told
    /// With the bytes that its Content-Length announces, or with the connection, which serves one request.
    case connection
  }

  /// The protocol, as messages name it.
  public let name: String
  let end: End
  /// Whether a head must say how long the request's body is, so that a body of unknown length is collected first.
  public let needsLength: Bool
  let makeCodec: @Sendable () -> WireCodec

  /// `makeCodec`: makes what a session has.
  public init(_ name: String, end: End, needsLength: Bool = false, makeCodec: @escaping @Sendable () -> WireCodec) {
    self.name = name
    self.end = end
    self.needsLength = needsLength
    self.makeCodec = makeCodec
  }

  public static func == (one: UpstreamWire, other: UpstreamWire) -> Bool { one === other }
  public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

/// What a codec has found in the bytes of an upstream. Bytes are valid until the next call of the codec, or until the input
/// changes.
public enum WireEvent {
  /// Nothing more in these bytes.
  case needsMore
  /// The head of a response, which the codec has written into the `ResponseHead`.
  case head
  /// Bytes of the response's body.
  case body(UnsafeRawBufferPointer)
  /// Bytes that the upstream says to whoever reads the error log.
  case text(UnsafeRawBufferPointer)
  /// The response has ended. `mayServeAgain`: another request may follow in the session.
  case end(mayServeAgain: Bool)
  /// The bytes are no response.
  case failed(WireFault)
}

/// Why bytes of an upstream are no response.
public enum WireFault: Error, Sendable {
  case head(HeadError)
  /// A sentence without its subject, which is the upstream: "sent an unsupported FastCGI record".
  case bytes(String)
}

/// Makes the bytes of requests and reads the bytes of responses, for one session after another request. It knows no socket and
/// no clock.
///
/// A session has one codec. Order of calls: `begin` for each request; then `next` whenever bytes have come. A codec keeps what
/// it doesn't consume in no more memory than a head may take (`HeadLimits`).
open class WireCodec {
  public init() {}

  /// Begins another request: appends all that goes before its body.
  open func begin(_ head: OutgoingRequestHead, _ method: HTTP.Method, to output: inout ByteBuffer) {}
  /// Appends bytes of the request's body.
  open func append(body bytes: UnsafeRawBufferPointer, to output: inout ByteBuffer) { output.append(bytes) }
  /// Appends what ends the request.
  open func appendEnd(to output: inout ByteBuffer) {}
  /// Finds the next event in the input, and says how many bytes of its front are not needed any more. `head`: gets the head
  /// of the response.
  open func next(_ input: UnsafeRawBufferPointer, limits: HeadLimits, into head: ResponseHead) -> (
    event: WireEvent, consumed: Int
  ) { (.needsMore, input.count) }
  /// What is wrong if the connection ends here, behind a head; nil: nothing is.
  open func faultAtEnd() -> WireFault? { nil }
}
