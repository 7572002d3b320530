package import Bytes
package import HTTP
package import Patterns
package import Transport

/// The state of the response to the client.
package struct ResponseProgress {
  package enum State: Equatable {
    /// No byte of a final response was sent.
    case waiting
    /// The head was sent; a body follows or not.
    case streaming(hasBody: Bool)
    case tunnel
    /// The whole response was sent.
    case whole
  }

  package var state = State.waiting
  /// The status of the response, as the access log has it; 0 until it is settled.
  package var status = 0
  /// `error_page … =CODE`, or the status of the failure whose page is fetched.
  package var statusOverride: Int?
  /// The status by which a limit refused the request; 0: none did.
  var limitStatus = 0
  /// `$status`: that of the response as soon as it is settled, before that what an error page has set, else 0.
  package var statusSoFar: Int { status > 0 ? status : statusOverride ?? 0 }
  /// Extra fields of sallyport's own response: a challenge, `Retry-After`.
  package var ownFields: FieldBlock?
  /// Bytes of the response's body, without its framing.
  var bodyBytesSent: UInt64 = 0
  /// `ClientStream.sentBytes` when the request began.
  var sentBytesAtStart: UInt64 = 0
  /// The trailers that went to the client.
  var sentTrailers: Trailers?
  /// The filters of the response's body.
  package var filters = BodyFilterChain()
  /// A filter that the response itself asks for, besides those of its location.
  var askedFilter: ResponseFilter?

  package mutating func reset() {
    state = .waiting
    status = 0
    statusOverride = nil
    limitStatus = 0
    if ownFields != nil { ownFields = nil }
    bodyBytesSent = 0
    if sentTrailers != nil { sentTrailers = nil }
    filters.reset()
    if askedFilter != nil { askedFilter = nil }
  }
}

/// The state of the request's body. It outlives a content handler, because a named error page can forward the body.
package struct ExchangeBody {
  package enum State {
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

  package var state = State.none
  /// Bytes received, without framing.
  package var received: UInt64 = 0

  /// The body, if a feature has opened it.
  package var opened: RequestBody? {
    if case .collected(let kept) = state, kept.isOpened { kept } else { nil }
  }

  /// The body of `$request_body`: whole and in memory. What came sealed in an envelope must not stand in a log.
  package var shown: RequestBody? {
    if case .collected(let kept) = state, !kept.isInFile, !kept.isOpened { kept } else { nil }
  }

  /// Whether the body can be sent again from its start.
  package var isReplayable: Bool {
    switch state {
    case .none, .collected, .held: true
    case .collecting, .streaming, .streamed: false
    }
  }
}

/// The normalised path of the request and its query, as the client sent them or an internal redirect replaced them.
package struct ExchangeTarget: ~Copyable {
  /// nginx's `$uri`.
  package var uri = ByteBuffer()
  /// The query of an internal redirect; nil: that of the client.
  var redirectedArguments: [UInt8]?
  package var redirection = Redirection.none
  /// Whether `uri` and the arguments replace what the client sent, so that an upstream doesn't get the client's own text
  /// (nginx's `valid_unparsed_uri`, inverted).
  package private(set) var isRewritten = false
  /// Whether the request may enter `internal` locations: after an error page or a `rewrite`.
  package private(set) var isInternal = false
  /// Whether the path may be outside the location's own after `rewrite … break`, so that the URI of `proxy_pass` has
  /// nothing to replace (nginx's `valid_location`, inverted).
  package private(set) var hasLeftLocation = false
  /// Whether a `rewrite` has changed the path since the location was found (nginx's `uri_changed`).
  package private(set) var isChanged = false
  /// Whether an `if` with a `proxy_pass` of its own was entered since the location was found.
  var hasPassed = false
  /// Whether an error page was shown, and no further one may be (`recursive_error_pages off`).
  package var endsErrorPages = false
  /// Whether the locations of the path's other readings have admitted the client (`path_readings`).
  package var hasAdmittedReadings = false
  /// Whether a redirect has made the request a GET, which `$request_method` then says, as in nginx. In a subrequest: of the
  /// main request.
  private(set) var isShownAsGet = false

  package mutating func reset() {
    uri.removeAll()
    redirection = .none
    if redirectedArguments != nil { redirectedArguments = nil }
    if isRewritten || isInternal || hasPassed || endsErrorPages || hasLeftLocation || isShownAsGet {
      isRewritten = false
      isInternal = false
      hasLeftLocation = false
      hasPassed = false
      endsErrorPages = false
      isShownAsGet = false
    }
    isChanged = false
    hasAdmittedReadings = false
  }

  /// `keepsMethod`: the request stays what it was for variables and the log.
  package mutating func take(_ redirection: Redirection, keepsMethod: Bool) {
    self.redirection = redirection
    if redirection == .path, !keepsMethod { isShownAsGet = true }
  }

  /// The target of a subrequest begins. Error pages don't apply. `isShownAsGet`: of the main request.
  package mutating func begin(_ redirection: Redirection, isShownAsGet: Bool, at path: [UInt8], _ arguments: [UInt8]) {
    self.redirection = redirection
    self.isShownAsGet = isShownAsGet
    endsErrorPages = true
    redirect(to: path, .these(arguments))
  }

  /// The target of a `ReadingProbe` begins. The query is that of the main request. Error pages don't apply.
  package mutating func begin(_ redirection: Redirection, isShownAsGet: Bool, at path: [UInt8], _ arguments: [UInt8]?) {
    self.redirection = redirection
    self.isShownAsGet = isShownAsGet
    endsErrorPages = true
    redirect(to: path, .kept)
    redirectedArguments = arguments
  }

  /// A location was found for the path.
  mutating func didFindLocation() {
    isChanged = false
    hasPassed = false
  }

  /// Replaces the path, and the query unless that is nil, for `rewrite`.
  package mutating func rewrite(path: [UInt8], arguments: [UInt8]?, keepsLocation: Bool) {
    uri.removeAll()
    uri.append(path)
    if let arguments { redirectedArguments = arguments }
    isRewritten = true
    isInternal = true
    isChanged = !keepsLocation
    hasAdmittedReadings = false
    if keepsLocation { hasLeftLocation = true }
  }

  /// `set $args`.
  package mutating func setArguments(_ text: [UInt8]) {
    redirectedArguments = text
    isRewritten = true
  }

  /// `break`: the location stays, also for a path that changed.
  package mutating func keepLocation() {
    if isChanged { hasLeftLocation = true }
    isChanged = false
  }

  /// Sets `$uri` for a request that was refused, where its path can be read.
  package mutating func note(refused head: RequestHead, mergeSlashes: Bool) {
    // Only an absolute form may have no path.
    guard head.target.form == .absolute || !head.target.path.isEmpty else { return }
    let path = head.bytes.readable[head.target.path]
    if !TargetPath.normalize(path: path, mergeSlashes: mergeSlashes, into: &uri) { uri.removeAll() }
  }

  /// A named location was entered, by an internal redirect.
  mutating func didEnterNamed() {
    didFindLocation()
    isInternal = true
  }

  /// `try_files` found a file: `$uri` is its path, and an upstream still gets the client's own text.
  package mutating func setPath(_ path: [UInt8]) {
    uri.removeAll()
    uri.append(path)
  }

  /// Replaces path and query, for an internal redirect.
  package mutating func redirect(to text: [UInt8], _ arguments: RedirectedArguments) {
    uri.removeAll()
    switch arguments {
    case .kept: uri.append(text)
    case .these(let arguments):
      uri.append(text)
      redirectedArguments = arguments
    case .inText:
      let parts = text.split(separator: 0x3F, maxSplits: 1, omittingEmptySubsequences: false)
      uri.append(Array(parts.first ?? []))
      redirectedArguments = parts.count > 1 ? Array(parts[1]) : []
    }
    isRewritten = true
    isInternal = true
    hasLeftLocation = false
    hasAdmittedReadings = false
    isChanged = false
  }
}

/// The query after an internal redirect.
package enum RedirectedArguments {
  /// The one after the first `?` of the redirect's text, or none.
  case inText
  /// That of before. The text is a path alone.
  case kept
  /// This one. The text is a path alone.
  case these([UInt8])
}

/// Values that `set` and regular expressions leave for templates.
package struct VariableStorage {
  /// nil: not set.
  package private(set) var slots: [[UInt8]?] = []
  package private(set) var captures: [[UInt8]] = []
  /// `$request_id`, once a template has asked for it.
  var requestID: RequestID?
  /// Whether a variable could not be computed, so that no decision may rest on its value.
  package var isBroken = false
  /// The client by `set_real_ip_from`; nil: the connection's peer.
  package var client: SocketAddress?

  package mutating func reset() {
    isBroken = false
    if !slots.isEmpty { slots.removeAll() }
    if !captures.isEmpty { captures.removeAll() }
    requestID = nil
    if client != nil { client = nil }
  }

  /// Takes over the values of a main request, for its subrequest. Computed variables are computed again, because they may
  /// depend on the path.
  package mutating func inherit(_ main: borrowing VariableStorage, computed: [LiveVariable?]) {
    slots = main.slots.indices.map { computed.indices.contains($0) && computed[$0] != nil ? nil : main.slots[$0] }
    requestID = main.requestID
    client = main.client
  }

  package mutating func set(_ slot: Int, _ value: [UInt8]) {
    while slots.count <= slot { slots.append(nil) }
    slots[slot] = value
  }

  /// The value of a slot; nil if it is not set.
  package func value(_ slot: Int) -> [UInt8]? { slots.indices.contains(slot) ? slots[slot] : nil }

  mutating func dropCaptures() { if !captures.isEmpty { captures.removeAll() } }

  /// Keeps what a regular expression captured of `subject`, as bytes of their own: no later match or subject changes
  /// them.
  package mutating func take(_ captures: Captures, of subject: [UInt8], slots: [NamedCapture]) {
    func text(_ group: Int) -> [UInt8] {
      guard let range = captures[group], range.end <= subject.count else { return [] }
      return Array(subject[Int(range.start)..<range.end])
    }
    self.captures = (0..<captures.count).map(text)
    for named in slots { set(named.slot, text(named.group)) }
  }
}

/// How `error_page` has changed the request, at most once in an exchange.
package enum Redirection {
  /// The request is as the client sent it.
  case none
  /// In a named location, with method, target and body as the client sent them.
  case whole
  /// In a named location, as a GET without body: the request's own body is at fault, or has gone to an upstream already.
  case bodiless
  /// A GET of another path, without body.
  case path

  package var keepsBody: Bool { self == .none || self == .whole }
}
