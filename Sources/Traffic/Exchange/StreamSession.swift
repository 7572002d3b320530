package import Bytes
package import Observability
import Transport

/// A session of `stream`: all that a client's connection carries, from its rules to its line in the access log.
///
///     begin ─► rules (preaccess, access) ─► admitted ─► content ─► end, with a `SessionResult`
///
/// `TCPConnection` runs the rules, and starts the content when the connection is open. Each end comes by `end`.
public final class StreamSession: Transaction {
  // Counted by hand, from `begin` to `end`.
  private var streamRef: Unmanaged<TCPStream>?
  private var rules = RuleCursor()
  /// `$status`; 0 until the session ends.
  private var status = 0
  /// Bytes pass in both directions, or a text is being sent.
  package private(set) var isPassing = false

  /// The bytes of the client; nil after the end.
  package var stream: TCPStream? { streamRef?.takeUnretainedValue() }

  package override init(worker: Worker) { super.init(worker: worker) }

  /// The server block is that of the listener, until a name selects another.
  func begin(_ stream: TCPStream, _ client: ClientSession, _ server: LiveServer) {
    streamRef = Unmanaged.passRetained(stream)
    start(client)
    assume(server)
    if let step = server.addressStep { step.run(self) }
  }

  // MARK: Rules

  /// Runs the rules of the server block from the first one. Returns whether they admit the client, as far as its address
  /// tells. If one waits, `TCPStream.rulesDidAdmit` tells it later.
  func runRules() -> Bool {
    rules = RuleCursor()
    return perform(rules.next(location.rulesOfSessions.count))
  }

  package override func resume(after outcome: RuleOutcome) {
    if perform(take(outcome)) { stream?.rulesDidAdmit() }
  }

  private func perform(_ first: RuleCursor.Action) -> Bool {
    var action = first
    while true {
      switch action {
      case .run(let index):
        let steps = location.rulesOfSessions
        action = take(steps.indices.contains(index) ? steps[index].judge(self) : .refused(.fault))
      case .admit: return true
      case .refuse(let refusal):
        refuse(refusal)
        return false
      case .stop: return false
      }
    }
  }

  /// No access may rest on a variable that could not be computed.
  private func take(_ outcome: RuleOutcome) -> RuleCursor.Action {
    rules.take(variables.isBroken ? .refused(.fault) : outcome, location.rulesOfSessions.count)
  }

  /// Whether the rules on certificates deny the client. The session has ended then.
  func isRefused() -> Bool {
    guard let denying = location.rules, facts.admittedBy != denying, isDenied(by: location) else { return false }
    end(.refusedRule)
    return true
  }

  // MARK: Content

  func startContent() {
    guard let handler = makeHandler() else {
      log(.error, "no handler for server")
      return end(.error)
    }
    handler.start(self)
  }

  package func beginPassing() { isPassing = true }

  // MARK: End

  package override func refuse(_ refusal: RefusalCause) { end(SessionResult(refusal)) }
  override func wasRevoked() { end(.revoked) }

  /// Ends the session: the log steps, then the handler, then the connection. Each end of a session comes by here.
  /// `status`: nil: that of the result.
  package func end(_ result: SessionResult, status: Int? = nil) {
    guard let streamRef, let stream else { return }
    self.status = status ?? result.status
    stream.countEnd(result, after: worker.loop.now &- startedAt)
    // As in nginx, a connection that has passed to another listener has only the lines of that one.
    if result != .passed, !stream.isHealthQuestion, location.hasLogSteps {
      beginEnd()
      for step in location.logSteps { step.run(self) }
    }
    self.streamRef = nil
    leaveClient()
    serial &+= 1
    resetShared()
    stream.finish(result)
    streamRef.release()
  }

  // MARK: Variables and the error log

  package override func append(own variable: SimpleVariable, to output: inout ByteBuffer) {
    switch variable {
    case .status: Self.append(status: status, to: &output)
    case .bytes_sent: output.append(decimal: stream?.sentBytes ?? 0)
    case .msec, .time_local, .time_iso8601: appendTime(variable, to: &output)
    default: withHandler { $0.append(variable, to: &output) }
    }
  }

  package override func append(_ reader: TransactionReader, to output: inout ByteBuffer) {
    switch reader {
    case .ofSession(let append): append(self, &output)
    case .ofBoth(let append): append(self, &output)
    case .ofRequest: break
    }
  }

  package override var statusSoFar: Int { status }
  override var isTunnel: Bool { isPassing }

  /// As nginx's `stream`, which says no more of the session than its content does.
  override func appendParticulars(to text: inout ByteBuffer) { handler?.appendParticulars(to: &text) }

  /// Writes a line that says itself whom it is about: nginx's lines about connections in `stream`.
  package func logAlone(_ level: LogLevel, _ message: @autoclosure () -> String) {
    guard location.errorLog.takes(level) else { return }
    location.errorLog.log(level, "*\(facts.number) \(message())")
  }
}

/// The rules of a session, one after another: a pure state machine. The outcome of a rule goes in, one action comes out.
struct RuleCursor: Equatable {
  enum Action: Equatable {
    /// Run this rule.
    case run(Int)
    /// All rules have let the client in.
    case admit
    case refuse(RefusalCause)
    /// Do nothing: a rule waits.
    case stop
  }

  private var index = 0

  /// The next action. `count`: of all rules.
  func next(_ count: Int) -> Action { index < count ? .run(index) : .admit }

  /// The next action after a rule with this outcome. As in nginx's `stream`, one grant is not enough.
  mutating func take(_ outcome: RuleOutcome, _ count: Int) -> Action {
    switch outcome {
    case .next, .granted:
      index += 1
      return next(count)
    case .refused(let refusal): return .refuse(refusal)
    case .wait: return .stop
    }
  }
}
