package import Bytes
package import Observability
package import Patterns
package import Transport

/// What a server block serves from its begin to its line in the access log: a request with its response (`Exchange`), or
/// a session of `stream` (`StreamSession`). Rules, variables, logs and the way to an upstream need no more than this.
///
/// What differs between the two is asked by methods that each has its own of. None is on the way of a request.
public class Transaction {
  // Uncounted: the worker holds its sessions and its spare exchanges, and outlives them.
  package unowned(unsafe) final let worker: Worker
  // Uncounted: whoever serves the client holds its connection. nil before the begin and after the end.
  @exclusivity(unchecked) private final var clientRef: Unmanaged<ClientSession>?
  @exclusivity(unchecked) package internal(set) final var server: LiveServer
  @exclusivity(unchecked) package internal(set) final var location: LiveLocation
  @exclusivity(unchecked) package internal(set) final var variables = VariableStorage()
  /// What features keep of it.
  @exclusivity(unchecked) package internal(set) final var states = FeatureStates()
  // Counted by hand, from `take(handler:)` to `recycleHandler`.
  @exclusivity(unchecked) private final var handlerRef: Unmanaged<ContentHandler>?
  /// The number of what this object serves and waits for: a late callback compares it.
  @exclusivity(unchecked) package internal(set) final var serial: UInt64 = 0
  /// Milliseconds of the loop's clock.
  @exclusivity(unchecked) package private(set) final var startedAt: UInt64 = 0
  /// Whether the end has come: the access record is being written.
  @exclusivity(unchecked) package private(set) final var isOver = false
  /// Whether a refusal by a rule was reported (`ssl_verify_report_only`): rules are checked more than once.
  @exclusivity(unchecked) private final var isReported = false
  /// The facts of this request alone, if its client is not that of the connection.
  @exclusivity(unchecked) final var relayedFacts: ConnectionFacts?

  init(worker: Worker) {
    self.worker = worker
    // The begin sets both before any code reads them.
    guard let live = worker.live, let first = live.servers.first else {
      preconditionFailure("a worker makes these when it serves")
    }
    self.server = first
    self.location = first.root
  }

  // MARK: What the two differ in

  /// The generation whose slots the variables have.
  package var live: LiveGeneration { session.live }
  /// The status that `$status` has by now; 0 before one is settled.
  package var statusSoFar: Int { 0 }
  /// The normalised path of a request; empty for a session.
  package var path: [UInt8] { [] }
  /// The Host of a request, in lower case; empty for a session.
  package var host: [UInt8] { [] }
  /// The lines of X-Forwarded-For, the nearest proxy's first.
  package var forwardedFor: [[UInt8]] { [] }
  /// Whether bytes pass in both directions, so that there is no end to wait for.
  var isTunnel: Bool { false }
  /// What a line of the error log calls it.
  var thing: String { "connection" }

  /// Ends, because this refuses the client or because nothing can be served.
  package func refuse(_ refusal: RefusalCause) {}
  /// Goes on after a step that returned `wait`.
  package func resume(after outcome: RuleOutcome) {}
  /// The configuration of a reload refuses the client.
  func wasRevoked() {}
  /// Ends if the client has left, and no later event announces it.
  package func noticeLostClient() {}
  /// Appends what the error log says of it, beside its client and server.
  func appendParticulars(to text: inout ByteBuffer) {}

  /// Appends the value of a variable that has no place in `ConnectionFacts`.
  package func append(own variable: SimpleVariable, to output: inout ByteBuffer) {}
  package func append(_ reader: TransactionReader, to output: inout ByteBuffer) {}
  /// Appends the value of a variable with a parameter.
  package func append(_ variable: Variable, to output: inout ByteBuffer) { appendShared(variable, to: &output) }

  // MARK: Begin and end

  @inline(__always)
  final func start(_ client: ClientSession) {
    clientRef = Unmanaged.passUnretained(client)
    startedAt = worker.loop.now
  }

  /// Sets the server block, and its own settings until a location is found.
  package final func assume(_ server: LiveServer) {
    self.server = server
    location = server.root
  }

  /// The log steps run now.
  @inline(__always)
  final func beginEnd() { isOver = true }

  /// Nothing is asked of the client's connection any more.
  @inline(__always)
  final func leaveClient() { clientRef = nil }

  /// Forgets what was served.
  @inline(__always)
  final func resetShared() {
    isOver = false
    isReported = false
    states.reset()
    variables.reset()
    if relayedFacts != nil { relayedFacts = nil }
    recycleHandler()
  }

  /// Whether the end hasn't come.
  package final var isUnderWay: Bool { clientRef != nil }

  // MARK: The client

  /// The client's connection.
  package final var session: ClientSession {
    guard let clientRef else { preconditionFailure("it has a client from begin to end") }
    return clientRef.takeUnretainedValue()
  }
  package final var facts: ConnectionFacts { relayedFacts ?? session.facts }
  // Calls without counting.
  @inline(__always)
  private final func withFacts<Value>(_ body: (ConnectionFacts) -> Value) -> Value {
    if let relayedFacts { return body(relayedFacts) }
    guard let clientRef else { preconditionFailure("it has a client from begin to end") }
    return clientRef._withUnsafeGuaranteedRef { session in borrowing(session.facts) { body($0) } }
  }
  /// Appends the value of a variable that is of its client's connection. `place`: the variable's in `ConnectionFacts`.
  package final func append(ofConnection variable: SimpleVariable, place: Int, to output: inout ByteBuffer) {
    withFacts { _ = $0.append(variable, place: place, to: &output) }
  }
  /// It rests on a judgement that ends then.
  package final func note(end: Int64) { clientRef?._withUnsafeGuaranteedRef { $0.note(end: end) } }
  /// Whether the request's client is another one than the connection's.
  @inline(__always) final var isRelayed: Bool { relayedFacts != nil }
  /// That client.
  package final var relayed: RelayedClient? { relayedFacts?.relayed }

  // MARK: The content

  /// nil before the content, and for responses that no handler makes.
  package final var handler: ContentHandler? { handlerRef?.takeUnretainedValue() }
  // Calls without counting.
  final func withHandler(_ body: (ContentHandler) -> Void) { handlerRef?._withUnsafeGuaranteedRef { body($0) } }

  /// Makes the handler of the location's content; nil: there is no content.
  @inline(__always)
  final func makeHandler() -> ContentHandler? {
    let made = borrowing(location) { location in
      borrowing(worker) { location.content.handler(for: $0).map { Unmanaged.passRetained($0) } }
    }
    guard let made else { return nil }
    recycleHandler()
    handlerRef = made
    // Counted: a handler may end within its own call.
    return made.takeUnretainedValue()
  }

  final func recycleHandler() {
    guard let handlerRef else { return }
    self.handlerRef = nil
    handlerRef._withUnsafeGuaranteedRef { $0.recycle() }
    handlerRef.release()
  }

  // MARK: What steps and handlers settle

  package final func set(_ slot: Int, _ value: [UInt8]) { variables.set(slot, value) }
  package final func setBroken(_ isBroken: Bool) { variables.isBroken = isBroken }
  package final func setClient(_ address: SocketAddress) { variables.client = address }
  /// The state of a feature, for a change.
  package final func use<State: FeatureState>(_ kind: State.Type) -> State { states.use(kind) }

  /// Keeps what a regular expression captured of `subject`.
  package final func take(_ captures: Captures, of subject: [UInt8], slots: [NamedCapture]) {
    variables.take(captures, of: subject, slots: slots)
  }

  /// Searches a subject. A match's captures replace those of the last match; a miss drops them, as in nginx, unless
  /// `keepsOnMiss`.
  package final func match(
    _ pattern: RegularExpression, _ subject: [UInt8], _ named: [NamedCapture], keepsOnMiss: Bool = false
  ) -> MatchOutcome {
    var captures = Captures()
    let outcome = subject.withUnsafeBytes { pattern.match($0, scratch: worker.patternScratch, into: &captures) }
    switch outcome {
    case .match: take(captures, of: subject, slots: named)
    case .noMatch: if !keepsOnMiss { variables.dropCaptures() }
    case .limit: break
    }
    return outcome
  }

  // MARK: Rules on the client

  /// Whether a report of `ssl_verify_report_only` is the first.
  private final func beginsReport() -> Bool {
    defer { isReported = true }
    return !isReported
  }

  /// Whether the location's access rules deny the client. Counts and logs it.
  @inline(never)
  final func isDenied(by location: LiveLocation) -> Bool {
    guard let reason = location.denial(of: facts, scratch: worker.patternScratch) else { return false }
    if facts.reportsOnly {
      // A certificate that didn't verify has been reported, and matches no rule.
      guard case .granted = admission, beginsReport() else { return false }
      worker.counters.reports.count(.rule)
      log(.notice, "report only: \(reason)\(facts.loggedClient)")
      return false
    }
    worker.counters.refusals.count(.rule)
    worker.shared.clientFaults.logRefusal(of: self, .rule, .error, reason)
    return true
  }

  // MARK: The error log

  /// Writes a line, with the client, server and request that nginx adds: also after a message with a long text of a peer,
  /// which could otherwise push them beyond the line's end and name others itself.
  package final func log(
    _ level: LogLevel, fields: @autoclosure () -> [JournalField: String] = [:], _ message: @autoclosure () -> String
  ) {
    guard location.errorLog.takes(level) else { return }
    let number = isUnderWay ? session.facts.number : 0
    location.errorLog.log(level, fields: fields(), "*\(number) \(message().cut(to: 6144))\(particulars)")
  }

  /// Logs a fault that everybody meets until an operator repairs it: once, and then in summary.
  package final func tellOfRepeated(_ level: LogLevel, _ text: String) {
    let decision = worker.shared.faults.note(
      text, about: "requests", .none, level, location.errorLog, now: worker.loop.now)
    log(decision.writes ? level : .debug, text)
  }

  /// `, client: 127.0.0.1, server: a.test, request: "GET / HTTP/1.1", upstream: "https://127.0.0.1:443", host: "a.test"`
  private final var particulars: String {
    guard isUnderWay else { return "" }
    var text = ByteBuffer()
    text.append(string: ", client: \(clientAddress.host), server: \(session.loggedName(of: server))")
    appendParticulars(to: &text)
    return text.readable.text
  }
}
