import Bytes
import HTTP
import Upstream

/// What the features of a pass add to it, in one worker.
struct PassParts {
  let pass: UpstreamPass
  /// The group that all requests go to; nil: requests or DNS say it.
  let group: UpstreamGroup?
  /// Fields that no client may bring to the upstream, because sallyport or the upstream alone may say them.
  var replaced = NameSet()
  /// Fields of the upstream's responses that the client doesn't get.
  var hidden = NameSet()
  /// Something that the pass needs was not loaded, so that no request goes to the upstream.
  var isBroken = false
  /// What each request runs, in the order of `Features.all`.
  var requestHooks: [RequestHook] = []
  /// What may change fields of responses.
  var responseHooks: [ResponseHook] = []
  /// The filters of the upstream's responses. They come before those of the location.
  var filters: [ResponseFilter] = []
  /// nil: bodies of responses are the upstream's own.
  var ownBodies: OwnResponseBodies?
  /// Whether the digest of a body is needed.
  var digestsBodies = false

  init(_ pass: UpstreamPass, _ group: UpstreamGroup?) {
    self.pass = pass
    self.group = group
  }

  /// No client may bring a field of this name, in any spelling.
  mutating func replace(_ name: [UInt8]) { replaced.insert(name, withAliases: true) }
  mutating func replace(_ name: String) { replace(Array(name.utf8)) }
  mutating func hide(_ name: String) { hidden.insert(Array(name.utf8), withAliases: false) }
}

/// The bodies that a feature sends in place of the upstream's.
struct OwnResponseBodies {
  /// Their Content-Type.
  let type: StaticString
}

/// What a feature does with each request of a pass, in one worker. Most passes have none.
class RequestHook {
  /// What the feature keeps of one exchange; nil: nothing. Throws the response that the client gets in place of the
  /// upstream's.
  func begin(_ exchange: Exchange, _ handler: ProxyHandler) throws(ErrorResponse) -> ExchangeHook? { nil }
  /// Does the same for `sallyport check --explain`, and asks nobody.
  func rehearse(_ exchange: Exchange) throws(ErrorResponse) {}
  /// What `sallyport check --explain` says of the feature; nil: the request shows it.
  var note: String? { nil }

  // MARK: The head

  /// Adds fields, before those that the client has sent.
  func addFields(to outgoing: OutgoingRequestHead, of exchange: Exchange) {}
  /// Completes a head to which nobody adds any more. Returns false if the request can't be sent.
  func complete(_ outgoing: OutgoingRequestHead, of exchange: Exchange, isTLS: Bool) -> Bool { true }

  // MARK: The body

  /// An empty body, for a step that collects that of the request before the content starts; nil: anything will do.
  func storage(for exchange: Exchange) -> RequestBody? { nil }
  /// Whether `count` more bytes may be collected in `storage`; false if the exchange has responded.
  func admits(_ count: Int, in kept: RequestBody, _ exchange: Exchange) -> Bool { true }
  /// Whether bodies come sealed, so that one in clear may not go to this upstream.
  var opensBodies: Bool { false }
  /// Whether a body that a feature has opened may go to this upstream.
  func takes(opened body: RequestBody) -> Bool { false }
}

/// What a feature does with one exchange of a pass. The handler has it from the exchange's begin to its end.
class ExchangeHook {
  /// What to send over an open session.
  enum Sending {
    /// The request, with what was added to it.
    case request
    /// The head without a body.
    case headAlone
    /// Nothing: the exchange has responded.
    case nothing
  }

  /// What to do with a response.
  enum Share {
    case isForClient
    /// The body is read and discarded, so that the session stays usable, and another request follows.
    case discard
    /// The exchange has responded, or the request goes over another session.
    case answered
  }

  // MARK: The request

  /// Takes the request's body before an upstream is looked for. Returns false if the body goes on as without the feature;
  /// otherwise `ProxyHandler.tryNext` follows.
  func takeBody(_ exchange: Exchange) -> Bool { false }
  /// Whether `count` more bytes may be collected; false if the exchange has responded.
  func admits(_ count: Int, in kept: RequestBody, _ exchange: Exchange) -> Bool { true }
  /// Takes a body that has been collected. Returns false as `takeBody` does.
  func take(collected kept: RequestBody, _ exchange: Exchange) -> Bool { false }
  /// Whether the upstream may ask back, so that the body goes out a second time.
  var mayAskTwice: Bool { false }
  /// Whom the connection belongs to; nil: anybody may use it later.
  var connectionUser: (any AnyObject & Sendable)? { nil }
  /// Whether the feature says who the client is, and in a session of which user. The head is then wiped after it was sent.
  var sendsCredentials: Bool { false }
  func attemptDidBegin() {}
  /// Decides what to send over an open session. Returns false if that takes time: `ProxyHandler.sendRequest` follows.
  func prepare(_ exchange: Exchange, _ stream: UpstreamStream) -> Bool { true }
  /// Whether the request goes out as HEAD, whatever its method is.
  var isProbe: Bool { false }
  /// Whether the request goes out without its body.
  var isBodiless: Bool { false }
  /// Adds to the head that was built.
  func authorize(_ exchange: Exchange, _ stream: UpstreamStream) -> Sending { .request }

  // MARK: The response

  func take(_ response: ResponseHead, _ exchange: Exchange, _ stream: UpstreamStream) -> Share { .isForClient }
  /// Whether the response in progress is discarded, and another request follows.
  var isDiscarding: Bool { false }
  /// Takes discarded bytes into account; false if they are too many to keep the session.
  func discard(_ count: Int) -> Bool { true }
  /// The session of a discarded response has ended. Returns whether another one may carry the next request; if not, the
  /// exchange has responded.
  func mayUseAnotherConnection(_ exchange: Exchange) -> Bool { true }
  /// The next request goes over the session of the discarded response.
  func willUseSameConnection() {}
  /// Whether the feature holds responses until they are whole.
  var holdsResponses: Bool { false }
  /// Holds a head until its body is whole. Returns false if the exchange has responded.
  func hold(_ response: ResponseHead, _ exchange: Exchange) -> Bool { true }
  /// Whether it holds the response in progress.
  var isHolding: Bool { false }
  func hold(_ bytes: UnsafeRawBufferPointer, _ exchange: Exchange) {}
  /// The held response is whole: sends it, or another one.
  func release(_ exchange: Exchange) {}
}

/// What a feature makes of fields of a pass's responses, in one worker.
class ResponseHook {
  /// The fields that it may change.
  var fields: FieldNameSet { FieldNameSet() }
  /// The value in place of the upstream's; nil: the value stays.
  func value(of field: Field, in bytes: UnsafeRawBufferPointer, _ exchange: Exchange) -> [UInt8]? { nil }
}

/// What a feature of the location does with interim responses of upstreams.
class InterimHook {
  func take(_ head: ResponseHead, of exchange: Exchange, _ pass: CompiledPass) {}
}

/// A field by which an upstream's response tells a feature what to do.
struct UpstreamInstruction: Sendable {
  let field: FieldName
  /// The word of `proxy_ignore_headers` that silences it.
  let ignored: IgnoredResponseFields
  let obey: @Sendable (ResponseHead, Exchange) -> Void
}
