import Bytes
import HTTP
import Patterns
import Transport

/// The state of the response to the client.
struct ResponseProgress {
  enum State: Equatable {
    /// No byte of a final response was sent.
    case waiting
    /// The head was sent; a body follows or not.
    case streaming(hasBody: Bool)
    case tunnel
    /// The whole response was sent.
    case whole
  }

  var state = State.waiting
  /// The status of the response, as the access log has it; 0 until it is settled.
  var status = 0
  /// `error_page … =CODE`, or the status of the failure whose page is fetched.
  var statusOverride: Int?
  /// Extra fields of sallyport's own response: a challenge, `Retry-After`.
  var ownFields: FieldBlock?

  mutating func reset() {
    state = .waiting
    status = 0
    statusOverride = nil
    if ownFields != nil { ownFields = nil }
  }
}

/// Times and byte counts for the access log and variables.
struct ExchangeAccount {
  /// Milliseconds of the loop's clock.
  var startedAt: UInt64 = 0
  /// Bytes of the response's body, without its framing.
  var bodyBytesSent: UInt64 = 0
  /// `ClientStream.sentBytes` when the request began.
  var sentBytesAtStart: UInt64 = 0
  /// The trailers that went to the client.
  var sentTrailers: Trailers?

  mutating func reset() {
    bodyBytesSent = 0
    if sentTrailers != nil { sentTrailers = nil }
  }
}

/// The state of the request's body. It outlives a content handler, because a named error page can forward the body.
struct ExchangeBody {
  enum State {
    case none
    /// The body waits for the upstream: no byte is read yet.
    case held
    /// Kept until it is whole.
    case collecting(RequestBody)
    case collected(RequestBody)
    /// Goes on to the content handler as it comes.
    case streaming
    case streamed
  }

  var state = State.none
  /// Bytes received, without framing.
  var received: UInt64 = 0

  /// The body, if it was opened from an envelope.
  var opened: RequestBody? {
    if case .collected(let kept) = state, kept.isOpened { kept } else { nil }
  }

  /// Whether the body can be sent again from its start.
  var isReplayable: Bool {
    switch state {
    case .none, .collected, .held: true
    case .collecting, .streaming, .streamed: false
    }
  }
}

/// The normalised path of the request and its query, as the client sent them or an internal redirect replaced them.
struct ExchangeTarget: ~Copyable {
  /// nginx's `$uri`.
  var uri = ByteBuffer()
  /// The query of an internal redirect; nil: that of the client.
  var redirectedArguments: [UInt8]?
  var redirection = Redirection.none

  mutating func reset() {
    uri.removeAll()
    redirection = .none
    if redirectedArguments != nil { redirectedArguments = nil }
  }

  /// Replaces path and query, for an internal redirect.
  mutating func redirect(to text: [UInt8]) {
    let parts = text.split(separator: 0x3F, maxSplits: 1, omittingEmptySubsequences: false)
    uri.removeAll()
    uri.append(Array(parts.first ?? []))
    redirectedArguments = parts.count > 1 ? Array(parts[1]) : []
  }
}

/// Values that `set` and regular expressions leave for templates.
struct VariableStorage {
  private(set) var slots: [[UInt8]] = []
  private(set) var captures: [[UInt8]] = []
  /// `$request_id`, once a template has asked for it.
  var requestID: [UInt8] = []
  /// The client by `set_real_ip_from`; nil: the connection's peer.
  var client: SocketAddress?

  mutating func reset() {
    if !slots.isEmpty { slots.removeAll() }
    if !captures.isEmpty { captures.removeAll() }
    if !requestID.isEmpty { requestID.removeAll() }
    if client != nil { client = nil }
  }

  mutating func set(_ slot: Int, _ value: [UInt8]) {
    while slots.count <= slot { slots.append([]) }
    slots[slot] = value
  }

  /// Keeps what a regular expression captured of `subject`.
  mutating func take(_ captures: Captures, of subject: [UInt8], slots: [NamedCapture]) {
    func text(_ group: Int) -> [UInt8] {
      guard let range = captures[group], range.end <= subject.count else { return [] }
      return Array(subject[Int(range.start)..<range.end])
    }
    self.captures = (0..<captures.count).map(text)
    for named in slots { set(named.slot, text(named.group)) }
  }
}

/// How `error_page` has changed the request, at most once in an exchange.
enum Redirection {
  /// The request is as the client sent it.
  case none
  /// In a named location, with method, target and body as the client sent them.
  case whole
  /// In a named location, as a GET without body: the request's own body is at fault, or has gone to an upstream already.
  case bodiless
  /// A GET of another path, without body.
  case path

  var keepsBody: Bool { self == .none || self == .whole }
}
