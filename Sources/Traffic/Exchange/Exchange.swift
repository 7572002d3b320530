package import Bytes
package import HTTP
import Observability
import Patterns
import Transport

/// One request and its final response: a driver that runs the phases of nginx over `PhaseCursor`, starts the content
/// handler of the location, and ends the exchange.
///
///     begin ─► admission ─► phases (which location, who may) ─► content handler ─► response ─► end
///                               ▲                                    │
///                               └────────── error_page ◄── fail ─────┘
///
/// An object serves one request after another; `reset` empties it. A late callback compares `serial` to see whether the
/// exchange still waits for it. `end` is called once for every exchange, and runs the log steps.
public final class Exchange: Transaction {
  @exclusivity(unchecked) package let head = RequestHead()
  /// The response as it goes to the client.
  @exclusivity(unchecked) package let response = OutgoingResponseHead()
  // Counted by hand, from `start` to `end`: every call to the client comes by here.
  @exclusivity(unchecked) private var streamRef: Unmanaged<ClientStream>?
  @exclusivity(unchecked) package private(set) var target = ExchangeTarget()
  @exclusivity(unchecked) private var cursor = PhaseCursor()
  @exclusivity(unchecked) package private(set) var body = ExchangeBody()
  @exclusivity(unchecked) package private(set) var progress = ResponseProgress()
  /// Subrequests, and what an upstream's X-Accel-Redirect left.
  package let internalRequests = InternalRequests()
  /// What the exchange waits for by the clock.
  @exclusivity(unchecked) private var delay: OneShotTimer?
  /// Work beside the loop that the exchange waits for; withdrawn when the exchange ends.
  @exclusivity(unchecked) private(set) var pending: BlockingPool.Ticket?

  package override init(worker: Worker) { super.init(worker: worker) }

  /// nil between two requests.
  package var stream: ClientStream? { streamRef?.takeUnretainedValue() }
  /// What the response asks of its connection.
  package var policy: ResponsePolicy { location.policy }

  // Calls without counting.
  @inline(__always)
  package func withStream<Value>(_ body: (ClientStream) -> Value) -> Value? {
    streamRef?._withUnsafeGuaranteedRef { body($0) }
  }
  package var redirection: Redirection { target.redirection }

  package func reset() {
    dropWaits()
    head.reset()
    response.reset()
    target.reset()
    cursor = PhaseCursor()
    body = ExchangeBody()
    progress.reset()
    if delay != nil { delay.take()?.cancel() }
    internalRequests.reset()
    resetShared()
  }

  // MARK: What an exchange has where a session of `stream` has something else, or nothing

  package override var live: LiveGeneration { withStream { $0.live } ?? session.live }
  package override var statusSoFar: Int { progress.statusSoFar }
  package override var path: [UInt8] { Array(target.uri.readable) }
  package override var host: [UInt8] { head.bytes.readable[head.host].map { ASCII.lower($0) } }
  package override var forwardedFor: [[UInt8]] {
    head.fields.reversed().filter { $0.id == .xForwardedFor }.map { Array(head.bytes.readable[$0.value]) }
  }
  override var isTunnel: Bool { progress.state == .tunnel }
  override var thing: String { isTunnel ? "tunnel" : "request" }
  package override func refuse(_ refusal: RefusalCause) { fail(ErrorResponse(refusal.status)) }
  package override func resume(after outcome: RuleOutcome) { resume(StepOutcome(outcome, of: self)) }
  /// A limit refused the request: a response of this status is no server's error.
  func wasLimited(to status: Int) { progress.limitStatus = status }
  override func wasRevoked() { streamWasCut() }
  package override func noticeLostClient() { if stream?.hasClientLeft == true { clientDidLeave() } }
  override func appendParticulars(to text: inout ByteBuffer) { appendRequest(to: &text) }
  package override func append(own variable: SimpleVariable, to output: inout ByteBuffer) {
    append(ofRequest: variable, to: &output)
  }
  package override func append(_ reader: TransactionReader, to output: inout ByteBuffer) {
    switch reader {
    case .ofRequest(let append): append(self, &output)
    case .ofBoth(let append): append(self, &output)
    case .ofSession: break
    }
  }
  package override func append(_ variable: Variable, to output: inout ByteBuffer) {
    append(parameterized: variable, to: &output)
  }

  // MARK: Begin

  package func start(_ stream: ClientStream) {
    streamRef = Unmanaged.passRetained(stream)
    worker.traffic.didBeginExchange()
    start(stream.session)
    progress.sentBytesAtStart = stream.sentBytes
  }

  /// Begins an exchange whose head is complete, and runs its phases until a step or the handler waits. The stream
  /// retains its session.
  package func begin(_ stream: ClientStream) {
    start(stream)
    borrowing(stream.session) { begin($0) }
  }

  private func begin(_ session: ClientSession) {
    if worker.shared.entry.isActive, isAnsweredAtEntry(session) { return }
    if session.servers.hasOnlyOne { return borrowing(session.servers) { begin(session, at: $0.fallback) } }
    guard let server = session.server(for: self) else {
      assume(session.firstServer)
      noteRefusedPath()
      session.firstServer.relayedClientStep?.run(self, session, at: session.firstServer)
      return fail(ErrorResponse(400))
    }
    begin(session, at: server)
  }

  private func begin(_ session: ClientSession, at server: LiveServer) {
    // Mostly it is the one of this object's last exchange: then no count is touched. The location is that of the last
    // one, too, until it is found, or until somebody needs it before.
    if self.server !== server { assume(server) }
    if let step = server.relayedClientStep { step.run(self, session, at: server) }
    if !session.admits(self, at: server) {
      let judge = session.judge(of: self, at: server)
      assume(judge)
      noteRefusedPath()
      let failure = session.refusal(of: self, at: server)
      // The page is of a block that may know its clients by the field of a front alone: its rules must not take the
      // front for the client.
      if judge !== server, !isRelayed { judge.relayedClientStep?.run(self, session, at: judge) }
      return fail(failure)
    }
    if mayBeReported(by: session) { session.report(self) }
    let path = head.bytes.readable[head.target.path]
    guard TargetPath.normalize(path: path, mergeSlashes: server.settings.head.mergesSlashes, into: &target.uri) else {
      assume(server)
      log(.info, "client sent invalid request target")
      return fail(ErrorResponse(400))
    }
    if let step = server.addressStep { step.run(self) }
    guard server.rewrite.isEmpty else {
      assume(server)
      return perform(cursor.next(counts, .all))
    }
    perform(findLocation())
  }

  /// Begins a subrequest of another exchange, for a path of the same server block. `kept`: the body to send with it.
  package func begin(
    _ stream: ClientStream, under main: Exchange, _ redirection: Redirection, toPath text: [UInt8],
    _ arguments: [UInt8], _ kept: RequestBody?
  ) {
    start(stream)
    assume(main.server)
    variables.inherit(main.variables, computed: stream.live.variables)
    relayedFacts = main.relayedFacts
    if let kept { body.state = .collected(kept) }
    target.begin(redirection, isShownAsGet: main.target.isShownAsGet, at: text, arguments)
    perform(cursor.next(counts, .all))
  }

  /// Begins the exchange of a `ReadingProbe`: another exchange's request, in the location of another reading of its path.
  package func begin(_ stream: ClientStream, reading path: [UInt8], in found: LiveLocation, under main: Exchange) {
    start(stream)
    assume(main.server)
    variables.inherit(main.variables, computed: stream.live.variables)
    relayedFacts = main.relayedFacts
    target.begin(.whole, isShownAsGet: main.target.isShownAsGet, at: path, main.target.redirectedArguments)
    location = found
    if case .regex(let pattern, let slots) = found.settings.match {
      var captures = Captures()
      if case .match = path.withUnsafeBytes({ pattern.match($0, scratch: worker.patternScratch, into: &captures) }) {
        variables.take(captures, of: path, slots: slots)
      }
    }
    perform(enter(found))
  }

  /// The location admits the client. Its content never begins.
  private func endReading() {
    withStream { $0.didAdmit() }
    end(.complete)
  }

  // MARK: Phases

  private var counts: PhaseCounts {
    let counts = PhaseCounts(server.rewrite, location.steps)
    return switch withStream({ $0.role }) {
    case .client?, nil: counts
    case .subrequest?: counts.ofSubrequest
    case .reading?: counts.ofReading
    }
  }

  private func step(_ phase: Phase, _ index: Int) -> PhaseStep {
    phase == .serverRewrite ? server.rewrite[index] : location.steps.step(phase, index)
  }

  private func perform(_ first: PhaseAction) {
    var action = first
    while true {
      switch action {
      case .run(let phase, let index):
        // A step that has responded may have ended the exchange. Its outcome then changes nothing here.
        let outcome = step(phase, index).run(self)
        action = cursor.take(variables.isBroken ? failBroken(outcome) : outcome, counts, location.steps.satisfy)
      case .findLocation: action = findLocation()
      case .startContent:
        switch withStream({ $0.role }) {
        case .client?, .subrequest?, nil: return startContent()
        case .reading?: return endReading()
        }
      case .fail(let failure):
        if cursor.phase == .access, location.denialResponder?.takes(failure, of: self) == true { return }
        return fail(failure)
      case .stop: return
      }
    }
  }

  /// Continues after a step that returned `wait`.
  package func resume(_ outcome: StepOutcome) {
    perform(cursor.take(outcome, counts, location.steps.satisfy))
    noticeClientEnd()
  }

  private func findLocation() -> PhaseAction {
    target.didFindLocation()
    var captures = Captures()
    let path = target.uri.readable
    let choice = borrowing(worker.patternScratch) { scratch in
      borrowing(server.locations) { $0.find(path, captures: &captures, scratch: scratch) }
    }
    switch choice {
    case .location(let found):
      if location !== found { location = found }
      return enter(found)
    case .pattern(let found, _, let slots):
      location = found
      variables.take(captures, of: Array(target.uri.readable), slots: slots)
    case .redirect(let found):
      location = found
      if !found.settings.isInternal || target.isInternal {
        if !denies(found) { redirectToSlash() }
        return .stop
      }
    case .none: location = server.root
    case .undecided(let pattern):
      location = server.root
      log(.error, "the regular expression \"\(pattern.pattern)\" gave up on this path")
      return .fail(ErrorResponse(500))
    }
    return enter(location)
  }

  /// Checks what applies at each entry to a location, even by an internal redirect, then begins the location's phases.
  /// `found`: that of the exchange.
  private func enter(_ found: LiveLocation) -> PhaseAction {
    if let entrance = found.entrance, let other = entrance.other(for: self) {
      location = other
      return begin(in: other)
    }
    return begin(in: found)
  }

  /// Does so in the location that the exchange is in now.
  private func begin(in location: LiveLocation) -> PhaseAction {
    if location.settings.isInternal && redirection == .none && !target.isInternal { return .fail(ErrorResponse(404)) }
    if denies(location) { return .stop }
    let limits = location.limits
    if case .length(let length) = head.framing, limits.maxBodySize > 0, length > limits.maxBodySize,
      redirection == .none
    {
      log(.error, "client intended to send too large body: \(length) bytes")
      return .fail(ErrorResponse(413))
    }
    if location.hasNoSteps { return .startContent }
    return cursor.enterLocation(counts, location.steps.satisfy)
  }

  /// Whether the location's access rules deny the client; the exchange has then responded. The rules apply before any
  /// step of the location, `return` included, and to error pages too. No password overrides them.
  @inline(__always)
  package func denies(_ location: LiveLocation) -> Bool {
    guard let rules = location.rules else { return false }
    return facts.admittedBy != rules && answersDenied(location)
  }

  /// Starts the location's content handler.
  private func startContent() {
    // As in nginx: an `if` passed the request on, and a later one without content took it over.
    guard let handler = makeHandler() else { return fail(ErrorResponse(target.hasPassed ? 500 : 404)) }
    handler.start(self)
  }

  // MARK: Internal redirects of error_page

  /// How the request goes on to an error page. What the failed handler knows stays for variables until another one starts.
  /// `keepsMethod`: no other path gets the request, since the page is a redirect of the client.
  package func prepareRedirect(_ redirection: Redirection, endsErrorPages: Bool = false, keepsMethod: Bool = false) {
    target.take(redirection, keepsMethod: keepsMethod || head.method == .head)
    if endsErrorPages { target.endsErrorPages = true }
    response.reset()
    if !redirection.keepsBody {
      stream?.discardBody()
      body.state = .none
    } else if case .held = body.state {
      // No byte of the body was read, so the next handler can take it.
      body.state = .none
    }
  }

  var showsErrorPages: Bool { !target.endsErrorPages && !cursor.isExhausted }

  /// Continues at another path of this server block.
  package func redirect(toPath text: [UInt8], _ arguments: RedirectedArguments = .inText) {
    dropWaits()
    guard cursor.restart() else { return endCycle("internally redirecting to \"\(LogEscape.text(text))\"") }
    target.redirect(to: text, arguments)
    location = server.root
    perform(cursor.next(counts, .all))
  }

  package func redirect(toNamed found: LiveLocation) {
    dropWaits()
    guard cursor.countRedirect() else { return endCycle("redirecting to a named location") }
    target.didEnterNamed()
    location = found
    perform(enter(found))
  }

  // MARK: What steps and handlers settle

  /// The locations of the path's other readings have admitted the client.
  package func noteAdmittedReadings() { target.hasAdmittedReadings = true }
  func noteRefusedPath() { target.note(refused: head, mergeSlashes: server.settings.head.mergesSlashes) }
  package func setArguments(_ text: [UInt8]) { target.setArguments(text) }
  package func setPath(_ path: [UInt8]) { target.setPath(path) }
  package func keepLocation() { target.keepLocation() }
  package func rewrite(path: [UInt8], arguments: [UInt8]?, keepsLocation: Bool) {
    target.rewrite(path: path, arguments: arguments, keepsLocation: keepsLocation)
  }

  /// Goes on in the location of an `if` block. Returns false if its access rules deny the client.
  package func enterBlock(_ index: Int) -> Bool {
    guard let block = server.conditionals[index] else { return true }
    location = block
    if block.hasOwnContent { target.hasPassed = true }
    return !denies(block)
  }
  /// The request's client is not that of the connection.
  package func setClient(_ relayed: RelayedClient) {
    relayedFacts = ConnectionFacts(of: session.facts, for: relayed.judged(by: worker.shared.denials))
    session.note(end: relayed.judgementEnd)
    if relayed.certificates.isEmpty { return }
    for watch in server.root.watches { watch.clientWasRelayed(self, relayed) }
  }

  package func keep(_ id: RequestID) { variables.requestID = id }

  package func setState(_ state: ResponseProgress.State) { progress.state = state }
  func didSendBody(_ count: Int) { progress.bodyBytesSent &+= UInt64(count) }
  /// Adds a filter of the response's body, next to the client.
  package func append(_ filter: BodyFilter) { progress.filters.append(filter) }
  /// A subrequest begins with what features know of the main request.
  package func inheritStates(of main: Exchange) { states.inherit(main.states) }
  /// Has a filter that the location may not have begin with the response.
  package func ask(for filter: ResponseFilter) { progress.askedFilter = filter }
  package func didSendTrailers(_ trailers: Trailers?) { progress.sentTrailers = trailers }
  package func setBody(_ state: ExchangeBody.State) {
    if case .collecting(let kept) = state { kept.begunAt = worker.loop.now }
    body.state = state
  }
  package func setStatus(_ status: Int) { progress.status = status }
  /// nil: the status is that of the response.
  package func overrideStatus(_ status: Int?) { progress.statusOverride = status }
  package func setOwnFields(_ fields: FieldBlock) { progress.ownFields = fields }
  func setPending(_ ticket: BlockingPool.Ticket?) { pending = ticket }

  /// Calls `end` after so many milliseconds, unless the exchange ends or goes on elsewhere before. The wait ends with its
  /// exchange: clients that leave must not pile up what waits for them.
  package func wait(milliseconds: Int, then end: @escaping (Exchange) -> Void) {
    let begun = serial
    delay = worker.loop.after(milliseconds) { [unowned self] in
      delay = nil
      if serial == begun { end(self) }
    }
  }

  /// The request ends, fails, or goes on elsewhere. What it has waited for must not move it any more.
  func dropWaits() {
    serial &+= 1
    if pending != nil, let ticket = pending.take() { worker.shared.pool.withdraw(ticket) }
  }

  // MARK: Events of the request's body

  package func requestBody(_ bytes: UnsafeRawBufferPointer) {
    body.received &+= UInt64(bytes.count)
    let limit = location.limits.maxBodySize
    if limit > 0 && body.received > limit {
      log(.error, "client intended to send too large chunked body: \(body.received) bytes")
      return failDuringBody(ErrorResponse(413))
    }
    switch body.state {
    case .collecting(let kept):
      guard BodyPace.isKept(by: self, in: kept), admits(bytes.count, in: kept) else { return }
      kept.append(bytes)
      if kept.isInFile { _ = writeBody(kept) }
    case .streaming: handler?.requestBody(bytes)
    case .none, .held, .collected, .streamed: break
    }
  }

  package func requestBodyDidEnd(trailers: Trailers?) {
    switch body.state {
    case .collecting(let kept):
      kept.end()
      if kept.isInFile, !writeBody(kept) { return }
      if kept.isComplete { bodyIsComplete(kept) }
    case .streaming:
      body.state = .streamed
      handler?.requestBodyDidEnd(trailers)
    case .none, .held, .collected, .streamed: break
    }
  }

  private func bodyIsComplete(_ kept: RequestBody) {
    body.state = .collected(kept)
    if let waiter = kept.takeWaiter() { return waiter.bodyDidEnd(kept, self) }
    handler?.requestBodyDidEnd(nil)
  }

  /// Has a thread of the pool write what waits for the file, and the client wait if that is much. Returns false if the
  /// exchange has responded.
  private func writeBody(_ kept: RequestBody) -> Bool {
    if let file = kept.file, let piece = kept.nextPiece() {
      let before = serial
      PendingWork.run(.bodies, for: self) {
        Result { () throws(BodyFile.StorageError) in try file.append(piece.bytes.readable) }
      } _: { exchange, result in
        exchange.bodyDidWrite(kept, result)
      }
      guard serial == before else { return false }
    }
    if kept.mustPause(now: worker.loop.now) { stream?.pauseBody() }
    return true
  }

  private func bodyDidWrite(_ kept: RequestBody, _ result: Result<Void, BodyFile.StorageError>) {
    kept.didWrite()
    if case .failure(let error) = result {
      tellOfRepeated(.crit, error.description)
      return failDuringBody(ErrorResponse(500))
    }
    if kept.isComplete { return bodyIsComplete(kept) }
    if writeBody(kept), kept.mayResume(now: worker.loop.now) { stream?.resumeBody() }
  }

  // MARK: End

  /// Ends the exchange: the log steps, the handler, and then the object is free for the next request, which the stream
  /// may bring at once.
  @inline(never)
  package func end(_ reason: EndReason) {
    guard let streamRef else { return }
    switch reason {
    case .complete: progress.state = .whole
    case .silent: progress.status = 444
    case .clientLeft, .clientTimedOut, .upstreamBroke, .workerStops: break
    }
    let isLogged = streamRef._withUnsafeGuaranteedRef { !$0.isSubrequest || $0.subrequestWillEnd(self, reason) }
    countEnd(streamRef)
    if isLogged, location.hasLogSteps { log() }
    // From here this call holds the stream, because the exchange may begin its next request before the call returns.
    self.streamRef = nil
    leaveClient()
    streamRef._withUnsafeGuaranteedRef { states.end($0) }
    borrowing(worker) { $0.giveBack(self) }
    streamRef._withUnsafeGuaranteedRef { if case .complete = reason { $0.release() } else { $0.cut(reason) } }
    streamRef.release()
  }

  private func log() {
    beginEnd()
    // The location holds its steps, and the exchange its location: no template changes that.
    borrowing(location) { location in
      for index in location.logSteps.indices { borrowing(location.logSteps[index]) { $0.run(self) } }
    }
  }
}
