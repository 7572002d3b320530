import Bytes
public import HTTP
public import Traffic
public import Upstream

/// What the features of a pass add to it, in one worker.
package struct PassParts {
  package let pass: UpstreamPass
  /// The group that all requests go to; nil: requests or DNS say it.
  package let group: UpstreamGroup?
  /// Fields that no client may bring to the upstream, because sallyport or the upstream alone may say them.
  package var replaced = NameSet()
  /// Fields of the upstream's responses that the client doesn't get.
  package var hidden = NameSet()
  /// Something that the pass needs was not loaded, so that no request goes to the upstream.
  package var isBroken = false
  /// What each request runs, in the order of `Features.all`.
  package var requestHooks: [RequestHook] = []
  /// What may change fields of responses.
  package var responseHooks: [ResponseHook] = []
  /// The filters of the upstream's responses. They come before those of the location.
  package var filters: [ResponseFilter] = []
  /// nil: bodies of responses are the upstream's own.
  package var ownBodies: OwnResponseBodies?
  /// Whether the digest of a body is needed.
  package var digestsBodies = false

  package init(_ pass: UpstreamPass, _ group: UpstreamGroup?) {
    self.pass = pass
    self.group = group
  }

  /// No client may bring a field of this name, in any spelling.
  package mutating func replace(_ name: [UInt8]) { replaced.insert(name, withAliases: true) }
  package mutating func replace(_ name: String) { replace(Array(name.utf8)) }
  package mutating func hide(_ name: String) { hidden.insert(Array(name.utf8), withAliases: false) }
}

/// The bodies that a feature sends in place of the upstream's.
package struct OwnResponseBodies {
  /// Their Content-Type.
  package let type: StaticString

  package init(type: StaticString) {
    self.type = type
  }
}

/// What a feature does with each request of a pass, in one worker. Most passes have none.
open class RequestHook {
  public init() {}

  /// What the feature keeps of one exchange; nil: nothing. Throws the response that the client gets in place of the
  /// upstream's.
  open func begin(_ exchange: Exchange, _ handler: ProxyHandler) throws(ErrorResponse) -> ExchangeHook? { nil }
  /// Does the same for `sallyport check --explain`, and asks nobody.
  open func rehearse(_ exchange: Exchange) throws(ErrorResponse) {}
  /// What `sallyport check --explain` says of the feature; nil: the request shows it.
  open var note: String? { nil }

  // MARK: The head

  /// Adds fields, before those that the client has sent.
  open func addFields(to outgoing: OutgoingRequestHead, of exchange: Exchange) {}
  /// Completes a head to which nobody adds any more. Returns false if the request can't be sent.
  open func complete(_ outgoing: OutgoingRequestHead, of exchange: Exchange, isTLS: Bool) -> Bool { true }

  /// What a request would send in a protocol that isn't HTTP, for `sallyport check --explain`: lines of a label and a text.
  open func words(for outgoing: OutgoingRequestHead) -> [(label: String, text: String)] { [] }

  // MARK: The response

  /// Judges what an upstream says for the error log before its response. Returns false if that makes the attempt fail.
  open func accepts(_ text: UnsafeRawBufferPointer) -> Bool { true }

  // MARK: The body

  /// An empty body, for a step that collects that of the request before the content starts; nil: anything will do.
  open func storage(for exchange: Exchange) -> RequestBody? { nil }
  /// Whether `count` more bytes may be collected in `storage`; false if the exchange has responded.
  open func admits(_ count: Int, in kept: RequestBody, _ exchange: Exchange) -> Bool { true }
  /// Whether bodies come sealed, so that one in clear may not go to this upstream.
  open var opensBodies: Bool { false }
  /// Whether a body that a feature has opened may go to this upstream.
  open func takes(opened body: RequestBody) -> Bool { false }
}

/// What a feature does with one exchange of a pass. The handler has it from the exchange's begin to its end.
open class ExchangeHook {
  public init() {}

  /// What to send over an open session.
  public enum Sending {
    /// The request, with what was added to it.
    case request
    /// The head without a body.
    case headAlone
    /// Nothing: the exchange has responded.
    case nothing
  }

  /// What to do with a response.
  public enum Share {
    case isForClient
    /// The body is read and discarded, so that the session stays usable, and another request follows.
    case discard
    /// The exchange has responded, or the request goes over another session.
    case answered
  }

  // MARK: The request

  /// Takes the request's body before an upstream is looked for. Returns false if the body goes on as without the feature;
  /// otherwise `ProxyHandler.tryNext` follows.
  open func takeBody(_ exchange: Exchange) -> Bool { false }
  /// Whether `count` more bytes may be collected; false if the exchange has responded.
  open func admits(_ count: Int, in kept: RequestBody, _ exchange: Exchange) -> Bool { true }
  /// Takes a body that has been collected. Returns false as `takeBody` does.
  open func take(collected kept: RequestBody, _ exchange: Exchange) -> Bool { false }
  /// Whether the upstream may ask back, so that the body goes out a second time.
  open var mayAskTwice: Bool { false }
  /// Whom the connection belongs to; nil: anybody may use it later.
  open var connectionUser: (any AnyObject & Sendable)? { nil }
  /// Whether the feature says who the client is, and in a session of which user. The head is then wiped after it was sent.
  open var sendsCredentials: Bool { false }
  open func attemptDidBegin() {}
  /// Decides what to send over an open session. Returns false if that takes time: `ProxyHandler.sendRequest` follows.
  open func prepare(_ exchange: Exchange, _ stream: UpstreamStream) -> Bool { true }
  /// Whether the request goes out as HEAD, whatever its method is.
  open var isProbe: Bool { false }
  /// Whether the request goes out without its body.
  open var isBodiless: Bool { false }
  /// Adds to the head that was built.
  open func authorize(_ exchange: Exchange, _ stream: UpstreamStream) -> Sending { .request }

  // MARK: The response

  open func take(_ response: ResponseHead, _ exchange: Exchange, _ stream: UpstreamStream) -> Share { .isForClient }
  /// Whether the response in progress is discarded, and another request follows.
  open var isDiscarding: Bool { false }
  /// Takes discarded bytes into account; false if they are too many to keep the session.
  open func discard(_ count: Int) -> Bool { true }
  /// The session of a discarded response has ended. Returns whether another one may carry the next request; if not, the
  /// exchange has responded.
  open func mayUseAnotherConnection(_ exchange: Exchange) -> Bool { true }
  /// The next request goes over the session of the discarded response.
  open func willUseSameConnection() {}
  /// Whether the feature holds responses until they are whole.
  open var holdsResponses: Bool { false }
  /// Holds a head until its body is whole. Returns false if the exchange has responded.
  open func hold(_ response: ResponseHead, _ exchange: Exchange) -> Bool { true }
  /// Whether it holds the response in progress.
  open var isHolding: Bool { false }
  open func hold(_ bytes: UnsafeRawBufferPointer, _ exchange: Exchange) {}
  /// The held response is whole: sends it, or another one.
  open func release(_ exchange: Exchange) {}
}

/// What a feature makes of fields of a pass's responses, in one worker.
open class ResponseHook {
  public init() {}

  /// The fields that it may change.
  open var fields: FieldNameSet { FieldNameSet() }
  /// The value in place of the upstream's; nil: the value stays.
  open func value(of field: Field, in bytes: UnsafeRawBufferPointer, _ exchange: Exchange) -> [UInt8]? { nil }
}

/// A field by which an upstream's response tells a feature what to do.
package struct UpstreamInstruction: Sendable {
  package let field: FieldName
  /// The word of `proxy_ignore_headers` that silences it.
  package let ignored: IgnoredResponseFields
  package let obey: @Sendable (ResponseHead, Exchange) -> Void

  package init(
    field: FieldName, ignored: IgnoredResponseFields, obey: @escaping @Sendable (ResponseHead, Exchange) -> Void
  ) {
    self.field = field
    self.ignored = ignored
    self.obey = obey
  }
}
