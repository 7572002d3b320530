import Bytes
import Glibc
import HTTP
import Observability
import Patterns
import TLS
import Transport
import Upstream

/// One request and its final response.
///
///     begin ─► admit (who) ─► route (which location) ─► permit ─► answer itself, or proxy:
///                                                                    body ─► attempt ─► head ─► body ─► end
///                                                                      ▲        │
///                                                                      └─ retry ┘
///
/// Objects are used again from request to request; `reset` makes one as new. Whatever happens, `finish` or one of the
/// ways a connection is cut writes the access record, once.
final class Exchange: AttemptObserver {
  /// How far the answer to the client has come.
  enum Answer {
    case waiting
    /// The head is written; `framing`: of the body that follows.
    case streaming(BodyFraming)
    case tunnel
    case ended
  }

  /// What `error_page` has made of the request: once at most.
  enum Redirection {
    /// It is as the client sent it.
    case none
    /// In a named location, with method, target and body as the client sent them.
    case whole
    /// In a named location, as a GET without body: its own body is at fault, or has gone to an upstream already.
    case bodiless
    /// A GET of another path, without body.
    case path

    var keepsBody: Bool { self == .none || self == .whole }
  }

  /// Where the request's body goes.
  enum Body {
    case none
    /// It waits for the upstream: bytes are not read yet.
    case held
    /// It is kept until it is whole.
    case collecting(RequestBody)
    case collected(RequestBody)
    /// It goes on as it comes.
    case streaming
    case streamed
  }

  // Uncounted: the worker holds its connections and its spare exchanges, and goes after them.
  unowned(unsafe) let worker: Worker
  @exclusivity(unchecked) let head = RequestHead()
  /// The request as it goes to the upstream.
  let outgoing: OutgoingRequestHead
  /// The response as it goes to the client.
  @exclusivity(unchecked) let responseHead = OutgoingResponseHead()
  /// For what is built and written within one call.
  @exclusivity(unchecked) var scratch = ByteBuffer()
  let patternScratch: RegularExpression.Scratch
  let clock: ClockText
  /// nginx's $uri: normalised; another one after an internal redirect.
  @exclusivity(unchecked) var uri = ByteBuffer()
  /// Query of an internal redirect; nil: the client's.
  var redirectedArguments: [UInt8]?
  @exclusivity(unchecked) var connection: ClientConnection?
  @exclusivity(unchecked) var server: LiveServer
  @exclusivity(unchecked) var location: LiveLocation
  @exclusivity(unchecked) var answer = Answer.waiting
  @exclusivity(unchecked) var body = Body.none
  @exclusivity(unchecked) var persists = false
  @exclusivity(unchecked) var bodyReceived: UInt64 = 0
  var isClientGone = false
  @exclusivity(unchecked) var redirection = Redirection.none

  // The upstream side
  @exclusivity(unchecked) var pass: LiveProxyPass?
  /// $proxy_host and $proxy_port of a target with variables; otherwise `pass` knows them.
  var passed: (host: [UInt8], port: [UInt8])?
  /// Of a `proxy_pass` with variables.
  var dynamicGroup: UpstreamGroup?
  @exclusivity(unchecked) var upstream: UpstreamConnection?
  @exclusivity(unchecked) var tried = TriedServers()
  @exclusivity(unchecked) var attempts: [AttemptRecord] = []
  @exclusivity(unchecked) var requestBegun = false
  @exclusivity(unchecked) var deadConnections = 0
  var fileOffset: UInt64 = 0
  /// What will be sealed (`message_envelope`).
  @exclusivity(unchecked) var heldAnswer: HeldAnswer?
  /// nil: an upstream's 401 is the client's.
  @exclusivity(unchecked) var authentication: ExchangeAuthentication?
  /// A password that waits to be looked at.
  @exclusivity(unchecked) var waitingPassword: BlockingPool.Ticket?
  /// $upstream_ssl_spki of the upstream that was refused last, whose connection is gone.
  var refusedKey = ""
  /// Calls that come back for an exchange that has been used again since carry an older number.
  @exclusivity(unchecked) var serial: UInt64 = 0

  // For variables and the access record
  @exclusivity(unchecked) var startedAt: UInt64 = 0
  @exclusivity(unchecked) var status = 0
  /// `error_page … =CODE`, or the failure's own status while its page is fetched.
  var statusOverride: Int?
  @exclusivity(unchecked) var bodyBytesSent: UInt64 = 0
  /// Of the connection, when the request began.
  @exclusivity(unchecked) var sentBytesAtStart: UInt64 = 0
  var slots: [[UInt8]] = []
  var captures: [[UInt8]] = []
  @exclusivity(unchecked) var requestID: [UInt8] = []
  /// Fields that our own answer has besides: a challenge.
  var answerFields = FieldBlock()
  /// The trailers that went to the client.
  var sentTrailers: Trailers?
  private static let scratchKept = 16 * 1024

  init(worker: Worker) {
    self.worker = worker
    self.outgoing = OutgoingRequestHead(over: head)
    self.patternScratch = worker.patternScratch
    self.clock = worker.clock
    // Overwritten by `begin` before anybody looks.
    guard let live = worker.live, let first = live.servers.first else {
      preconditionFailure("an exchange is made by a worker that serves")
    }
    self.server = first
    self.location = first.root
  }

  var facts: ConnectionFacts {
    guard let connection else { preconditionFailure("a template is evaluated while its exchange runs") }
    return connection.facts
  }

  /// The client's handshake is not over: the request may be a replay (RFC 8470 §3).
  var isEarly: Bool { connection?.stream.isEarly ?? false }

  func reset() {
    serial &+= 1
    head.reset()
    outgoing.reset()
    uri.removeAll()
    if scratch.storageSize > Self.scratchKept { scratch.release() }
    if redirectedArguments != nil { redirectedArguments = nil }
    connection = nil
    answer = .waiting
    body = .none
    persists = false
    bodyReceived = 0
    isClientGone = false
    redirection = .none
    pass = nil
    if passed != nil { passed = nil }
    if dynamicGroup != nil { dynamicGroup = nil }
    if upstream != nil { upstream = nil }
    if heldAnswer != nil { heldAnswer = nil }
    tried = TriedServers()
    while !attempts.isEmpty { attempts.removeLast() }
    requestBegun = false
    deadConnections = 0
    fileOffset = 0
    if authentication != nil { authentication = nil }
    if waitingPassword != nil { withdrawPassword() }
    if !refusedKey.isEmpty { refusedKey = "" }
    status = 0
    statusOverride = nil
    bodyBytesSent = 0
    if !slots.isEmpty { slots.removeAll() }
    if !captures.isEmpty { captures.removeAll() }
    if !requestID.isEmpty { requestID.removeAll() }
    responseHead.reset()
    if !answerFields.isEmpty { answerFields = FieldBlock() }
    if sentTrailers != nil { sentTrailers = nil }
  }

  // MARK: What an attempt tells; the work is in Proxying.swift

  override func attemptWillTry(_ server: Int) { upstreamWillBeTried(server) }
  override func attemptDidBegin(_ connection: UpstreamConnection) { upstreamDidBegin(connection) }
  override func attemptDidOpen(_ connection: UpstreamConnection) { upstreamDidOpen(connection) }
  override func attemptHead(_ head: ResponseHead) -> Bool { upstreamHead(head) }
  override func attemptBody(_ bytes: UnsafeRawBufferPointer) { upstreamBody(bytes) }
  override func attemptDidPump() { upstreamDidPump() }
  override func attemptDidEnd(trailers: Trailers?) { upstreamDidEnd(trailers) }
  override func attemptDidFail(_ failure: AttemptFailure) { upstreamDidFail(failure) }
  override func attemptDidDrain() { upstreamDidDrain() }
  override func attemptMayAskAgain(_ connection: UpstreamConnection?) { upstreamMayAskAgain(connection) }
  override func tunnelBytes(_ bytes: UnsafeRawBufferPointer) { tunnelFromUpstream(bytes) }
  override func tunnelDidEnd(inGoodOrder: Bool) { tunnelUpstreamDidEnd(inGoodOrder: inGoodOrder) }

  // MARK: Begin

  private func start(_ connection: ClientConnection) {
    self.connection = connection
    startedAt = worker.loop.now
    sentBytesAtStart = connection.sentBytes
  }

  /// The server block that answers, and its own settings until a location is found.
  private func assume(_ server: LiveServer) {
    self.server = server
    location = server.root
  }

  /// A head that was refused, or with no error one that did not come to its end in time: answered, logged, and the
  /// connection ends.
  func beginRefused(_ connection: ClientConnection, server: LiveServer, _ error: HeadError?) {
    start(connection)
    assume(server)
    log(
      .info,
      (error.map { "client sent invalid request: \($0.reason)" } ?? "client timed out (110: Connection timed out)")
        + " while reading client request headers")
    fail(error.map { Failure($0) } ?? .timedOut)
  }

  /// The head is parsed: decides everything up to the point where somebody must be waited for.
  func begin(_ connection: ClientConnection) {
    start(connection)
    if connection.servers.hasOnlyOne { return begin(connection, at: connection.servers.fallback) }
    guard let server = connection.server(for: self) else {
      assume(connection.firstServer)
      return fail(Failure(400))
    }
    begin(connection, at: server)
  }

  private func begin(_ connection: ClientConnection, at server: LiveServer) {
    // Mostly it is the one of this object's last exchange: then no count is touched. The location is that of the last
    // one, too, until `route`, or until somebody needs it before.
    if self.server !== server { assume(server) }
    let limits = server.root.limits
    persists =
      head.persists && connection.requests < limits.keepaliveRequests && limits.keepaliveTimeout > 0
      && worker.loop.now &- connection.facts.openedAt < UInt64(max(0, limits.keepaliveTime))
    if !isAdmitted(connection, at: server) {
      assume(server)
      return fail(refusal(connection))
    }
    let path = head.bytes.readable[head.target.path]
    guard TargetPath.normalize(path: path, mergeSlashes: server.settings.head.mergesSlashes, into: &uri) else {
      assume(server)
      log(.info, "client sent invalid request target")
      return fail(Failure(400))
    }
    if !server.root.rewrite.isEmpty {
      assume(server)
      if runRewrite(of: location) { return }
    }
    route(at: server)
  }

  /// Who may ask at all, and whether the server block of the handshake may stand for the one that Host names.
  private func isAdmitted(_ connection: ClientConnection, at server: LiveServer) -> Bool {
    guard case .granted = connection.admission else { return false }
    guard let tls = connection.facts.tls else { return true }
    guard let context = tls.serverContext else { return false }
    return server.admits(clientOf: context)
  }

  /// Why a client was not admitted.
  private func refusal(_ connection: ClientConnection) -> Failure {
    let refusals = worker.metrics.refusals
    switch connection.admission {
    case .refused(let failure, let reason):
      refusals.count(.certificate)
      log(.info, reason + connection.facts.loggedClient)
      return failure
    case .undecided:
      log(.info, "the client's handshake chose no server")
      return .certificateError
    case .granted:
      refusals.count(.misdirected)
      log(.info, "client attempted to request the server name different from the one that was negotiated")
      return .misdirected
    }
  }

  /// Finds the location and goes on there.
  func route(at server: LiveServer) {
    var captures = Captures()
    switch server.locations.find(uri.readable, captures: &captures, scratch: patternScratch) {
    case .location(let found):
      if location !== found { location = found }
      return enter(found)
    case .pattern(let found, _, let slots):
      location = found
      take(captures, of: Array(uri.readable), slots: slots)
    case .redirect(let found):
      location = found
      if !found.settings.isInternal { return denies(found) ? () : redirectToSlash() }
    case .none: location = server.root
    case .undecided(let pattern):
      location = server.root
      log(.error, "the regular expression \"\(pattern.pattern)\" gave up on this path")
      return fail(Failure(500))
    }
    enter(location)
  }

  /// What a location does with the request. `location`: the exchange's.
  func enter(_ location: LiveLocation) {
    if location.settings.isInternal && redirection == .none { return fail(Failure(404)) }
    if denies(location) { return }
    let limits = location.limits
    if case .length(let length) = head.framing, limits.maxBodySize > 0, length > limits.maxBodySize,
      redirection == .none
    {
      log(.error, "client intended to send too large body: \(length) bytes")
      return fail(Failure(413))
    }
    if location !== server.root, runRewrite(of: location) { return }
    guard location.settings.accessRules.isEmpty || AccessCheck.allows(facts.peer, location.settings.accessRules) else {
      log(.error, "access forbidden by rule")
      return fail(Failure(403))
    }
    // Enrolment asks for itself: it takes a token, too, and counts wrong passwords.
    if let access = location.settings.basicAccess {
      if case .enrolment(let desk) = location.action { return enrol(desk) }
      return authenticate(access)
    }
    act()
  }

  /// Who asks may be here: does what the location is for.
  func act() {
    switch location.action {
    case .none, .enrolment: fail(Failure(404))
    case .proxy(let pass): proxy(pass)
    case .metrics: answerMetrics()
    }
  }

  /// True when a `return` answered.
  private func runRewrite(of location: LiveLocation) -> Bool {
    for step in location.rewrite {
      switch step {
      case .set(let slot, let template): setSlot(slot, template.bytes(self))
      case .return(let status, let content):
        if denies(location) { return true }
        answerReturn(status: status, content)
        return true
      }
    }
    return false
  }
}
