import Bytes
import HTTP

/// What a location does with a request that its phases let through: compiled at load, one a location.
class LiveContent {
  /// A handler for one exchange; nil: the location has no content, and the request is answered with 404.
  func handler(for worker: Worker) -> ContentHandler? { nil }
  /// Whether a request body that is kept may go here by way of a named error page.
  func takes(_ body: RequestBody) -> Bool { true }
}

/// Produces the response of one exchange. A handler owns its state, and drives the exchange by its methods: `answer`,
/// `sendHead`, `sendBody`, `end`, `fail`.
///
/// `start` once; events of the body only after `ClientStream.resumeBody`; `cancel` at any time, perhaps more than once,
/// after which the handler calls nobody. Between `cancel` and `recycle` variables may still ask for what it knows.
class ContentHandler {
  func start(_ exchange: Exchange) {}
  /// Bytes of a body that goes on as it comes, valid during the call; a body that is kept is asked for with `admits`.
  func requestBody(_ bytes: UnsafeRawBufferPointer) {}
  /// Whether so many bytes more of a body may be kept; false: the handler has answered.
  func admits(_ count: Int, in kept: RequestBody) -> Bool { true }
  /// The request's body is whole: kept, or sent on.
  func requestBodyDidEnd(_ trailers: Trailers?) {}
  /// The client has taken what waited for it.
  func clientDidDrain() {}
  /// The client has left; true: the handler goes on without it.
  func goesOnWithoutClient() -> Bool { false }
  /// Bytes of the client after `becomeTunnel`, and their end.
  func tunnelBytes(_ bytes: UnsafeRawBufferPointer) {}
  func tunnelClientDidEnd() {}
  /// Ends what is under way; what it has found out stays.
  func cancel() {}
  /// The exchange is over, or goes on with another handler: the handler forgets all.
  func recycle() {}

  // MARK: Variables of the handler's own

  func append(_ variable: SimpleVariable, to output: inout ByteBuffer) {}
  /// The head of the response that the handler got from elsewhere: `$upstream_http_…`.
  var upstreamHead: ResponseHead? { nil }
  /// What the error log says of the upstream that is asked: `, upstream: "https://127.0.0.1:443"`.
  func appendParticulars(to text: inout ByteBuffer) {}
  /// Fields of a response's trailers that the client does not get.
  func hides(_ field: Field, in bytes: UnsafeRawBufferPointer) -> Bool { false }
}
