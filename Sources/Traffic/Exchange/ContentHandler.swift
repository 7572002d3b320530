public import Bytes
public import HTTP

/// The content of a location, compiled at load. It makes a handler for each request or session that passes the earlier
/// phases.
open class LiveContent {
  public init() {}

  /// The filters of the content's own responses. They come before those of the location.
  open var filters: [ResponseFilter] { [] }
  /// Returns a handler for one of them; nil if the location has no content, so that the response is 404.
  open func handler(for worker: Worker) -> ContentHandler? { nil }
  /// Whether the digest of a request's body is needed.
  open var digestsBodies: Bool { false }
  /// An empty body, for a step that collects that of the request before the content starts; nil: anything will do.
  open func storage(for exchange: Exchange) -> RequestBody? { nil }
  /// Whether `count` more bytes may be collected in `storage`; false if the exchange has responded.
  open func admits(_ count: Int, in kept: RequestBody, _ exchange: Exchange) -> Bool { true }
  /// What the content would do, for `sallyport check --explain`, which then asks nobody and opens nothing. nil: the content
  /// may run as it is.
  open func explained(_ exchange: Exchange) -> String? { nil }
  /// The same of a session, and how it would end.
  open func explained(_ session: StreamSession) -> (words: String, result: SessionResult)? { nil }
  /// Whether the content of a session is a connection to an upstream.
  open var isUpstream: Bool { false }
  /// A handler that tells what the content would do where `explained` can't say it before; nil: there is no such handler.
  open func rehearsal(_ trace: ExplainTrace) -> ContentHandler? { nil }
  /// Whether a collected request body may come here through a named error page.
  open func takes(_ body: RequestBody) -> Bool { true }
}

/// Produces the response of one exchange, or passes the bytes of a session. A handler owns its state, and drives the
/// exchange by its methods: `answer`, `sendHead`, `sendBody`, `end`, `fail`.
///
/// The exchange calls `start` once, and delivers events of the body only after `ClientStream.resumeBody`. It calls
/// `cancel` at any time, perhaps more than once; after that, the handler makes no calls. Variables can read the handler
/// until `recycle`.
open class ContentHandler {
  public init() {}

  open func start(_ exchange: Exchange) {}
  open func start(_ session: StreamSession) { session.end(.error) }
  /// Takes bytes of a streamed body, valid during the call. For a collected body, the exchange calls `admits` instead.
  open func requestBody(_ bytes: UnsafeRawBufferPointer) {}
  /// Whether `count` more bytes of the body may be collected; false if the handler has responded.
  open func admits(_ count: Int, in kept: RequestBody) -> Bool { true }
  /// The request's body is complete: collected, or streamed to the handler.
  open func requestBodyDidEnd(_ trailers: Trailers?) {}
  /// The client has taken all waiting bytes, and no filter keeps any: the source may bring more.
  open func clientDidDrain() {}
  /// The source is to bring nothing until `clientDidDrain`.
  open func pauseSource() {}
  /// Whether the work is in vain for a client that has ended its side and may have gone, as in nginx that of an upstream
  /// is.
  open var endsWithClient: Bool { false }
  /// The client has left. Returns true if the handler continues without the client.
  open func goesOnWithoutClient() -> Bool { false }
  /// Bytes of the client after `becomeTunnel`, and their end.
  open func tunnelBytes(_ bytes: UnsafeRawBufferPointer) {}
  open func tunnelClientDidEnd() {}
  /// Of a session: the client broke off, the rate lets no more of its bytes be read, and a deadline of the stream.
  open func tunnelClientDidBreak() { tunnelClientDidEnd() }
  open func clientAllowanceDidEnd() {}
  open func deadlineDidPass() {}
  /// Stops all work in progress, and keeps the values that variables read.
  open func cancel() {}
  /// Clears the handler, because the exchange has ended or continues with another handler.
  open func recycle() {}

  /// Judges the upstream of an exchange in progress again, if its judgement is over, or if the generation that serves has
  /// other trust anchors or revocation lists. Returns when it is to be judged next, in seconds since 1970; `.max`: never,
  /// or there is none.
  open func judgeUpstream(by fresh: LiveGeneration) -> Int64 { .max }

  // MARK: Variables of the handler's own

  open func append(_ variable: SimpleVariable, to output: inout ByteBuffer) {}
  /// The head of the upstream's response, for `$upstream_http_…`; nil if the handler has none.
  open var upstreamHead: ResponseHead? { nil }
  /// The trailers of the upstream's response, for `$upstream_trailer_…`; nil before its end, and without any.
  open var upstreamTrailers: Trailers? { nil }
  /// Appends the upstream for the error log: `, upstream: "https://127.0.0.1:443"`.
  open func appendParticulars(to text: inout ByteBuffer) {}
  /// Whether the body may be compressed: not a sealed one, and not a call of gRPC, which has a compression of its own.
  open var isCompressible: Bool { true }
  /// Whether the body can hold text of the request or of one user, so that its compressed size could tell of them.
  open var mayReflect: Bool { true }
  /// Whether the client doesn't get this trailer field.
  open func hides(_ field: Field, in bytes: UnsafeRawBufferPointer) -> Bool { false }
}

/// What a feature of the location does with interim responses that the content gets for an exchange.
open class InterimHook {
  package init() {}
  open func take(_ head: ResponseHead, of exchange: Exchange) {}
}
