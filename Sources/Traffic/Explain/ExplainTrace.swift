import Bytes
package import Observability
import Synchronization
package import TLS

/// What an explained request did, in order. Steps and contents that were made with a trace tell it.
public final class ExplainTrace: Sendable {
  /// What a line says, for a program.
  package enum Fact: Sendable {
    case listener(ListenerSettings)
    case server(ServerSettings)
    case location(LocationSettings)
    /// Why the handshake fails.
    case handshake(HandshakeCause)
    /// The rule that decides on the client, and whether it admits the client.
    case rule(SourceLocation, admits: Bool)
    /// A step refuses the client, or responds; its place is that of the location.
    case refusal(step: String)
    /// The client gets what a step sends, whatever status an error page gives it.
    case answer(step: String)
    /// Somebody would be asked, and the rehearsal goes on with the answer that admits the client.
    case asks
    /// Somebody would be asked, and the rehearsal ends here.
    case waits
    /// The request or the session goes to this upstream.
    case upstream(name: String, any ContentDirectives)
    /// The upstream gets this field or parameter.
    case told(name: String, value: String)
    /// What the location itself serves.
    case content(any ContentDirectives)
    case status(UInt16)
    case result(SessionResult)
  }

  /// One line of the report.
  package struct Line: Sendable {
    package var label: String
    package var text: String
    /// nil: the line is for people alone.
    package var fact: Fact?

    package init(_ label: String, _ text: String, _ fact: Fact? = nil) {
      self.label = label
      self.text = text
      self.fact = fact
    }
  }

  private struct State {
    var lines: [Line] = []
    var location: ObjectIdentifier?
    /// The step that runs has sent a content of its own.
    var isAnswered = false
  }

  private let state = Mutex(State())
  /// Whether limits on rates are taken as kept: one client of many rehearsed ones then says nothing of the next.
  package let takesLimitsAsKept: Bool

  package init(takingLimitsAsKept: Bool = false) { takesLimitsAsKept = takingLimitsAsKept }

  package var lines: [Line] { state.withLock { $0.lines } }

  /// The lines so far, which the trace forgets: another request begins.
  package func take() -> [Line] {
    state.withLock { state in
      defer { state = State() }
      return state.lines
    }
  }

  package func add(_ label: String, _ text: String, _ fact: Fact? = nil) { add(Line(label, text, fact)) }

  /// Somebody would be asked here. `text`: who, what, and which answer is taken.
  package func asks(_ text: String) { add("asks", text, .asks) }

  package func add(_ line: Line) { state.withLock { $0.lines.append(line) } }

  /// The step that runs sends a content of its own.
  package func answers() { state.withLock { $0.isAnswered = true } }

  /// Adds a line and returns its number, for `complete`.
  private func begin(_ label: String, _ text: String) -> Int {
    state.withLock { state in
      state.lines.append(Line(label, text))
      return state.lines.count - 1
    }
  }

  private func complete(_ index: Int, _ text: String, _ fact: Fact?) {
    state.withLock { state in
      guard state.lines.indices.contains(index) else { return }
      state.lines[index].text += text
      state.lines[index].fact = fact
      if state.isAnswered, case .refusal(let step)? = fact { state.lines[index].fact = .answer(step: step) }
      state.isAnswered = false
    }
  }

  /// Tells of the location, if it is another one than before.
  package func enter(_ transaction: Transaction) {
    let location = transaction.location
    guard location !== transaction.server.root else { return }
    let isNew = state.withLock { state in
      defer { state.location = ObjectIdentifier(location) }
      return state.location != ObjectIdentifier(location)
    }
    guard isNew else { return }
    LocationWords(transaction, location.settings).tell(self)
  }

  // MARK: Made at load

  /// Steps that tell of themselves before and after they run. `words`: one for each.
  package func tracing(_ steps: [PhaseStep], _ words: [String]) -> [PhaseStep] {
    steps.enumerated().map { index, step in
      TracedStep(step, words.indices.contains(index) ? words[index] : step.words, self)
    }
  }

  package func tracing(_ steps: PhaseSteps) -> PhaseSteps {
    var traced = steps
    traced.preaccess = tracing(steps.preaccess, [])
    traced.access = tracing(steps.access, [])
    traced.postAccess = tracing(steps.postAccess, [])
    traced.precontent = tracing(steps.precontent, [])
    return traced
  }

  func tracing(_ rules: [SharedStep]) -> [SharedStep] { rules.map { TracedRule($0, self) } }

  private final class TracedRule: SharedStep {
    private let rule: SharedStep
    private let trace: ExplainTrace

    init(_ rule: SharedStep, _ trace: ExplainTrace) {
      self.rule = rule
      self.trace = trace
    }

    override func judge(_ transaction: Transaction) -> RuleOutcome {
      let line = trace.begin("step", rule.words)
      let outcome = rule.rehearse(judging: transaction, trace)
      trace.complete(line, ": \(outcome.words)", outcome.fact(of: rule.words))
      return outcome
    }
  }

  private final class TracedStep: PhaseStep {
    private let step: PhaseStep
    private let text: String
    private let trace: ExplainTrace

    init(_ step: PhaseStep, _ text: String, _ trace: ExplainTrace) {
      self.step = step
      self.text = text
      self.trace = trace
    }

    override func run(_ exchange: Exchange) -> StepOutcome {
      trace.enter(exchange)
      let line = trace.begin("step", text)
      let outcome = step.rehearse(exchange, trace)
      let holds = outcome == .next && step.isCondition
      trace.complete(line, ": \(holds ? "holds" : outcome.inWords(exchange))", outcome.fact(of: text))
      return outcome
    }
  }
}

extension RuleOutcome {
  fileprivate func fact(of step: String) -> ExplainTrace.Fact? {
    switch self {
    case .next, .granted: nil
    case .refused: .refusal(step: step)
    case .wait: .waits
    }
  }

  fileprivate var words: String {
    switch self {
    case .next: "goes on"
    case .granted: "admits the client"
    case .refused(.address): "denies the client (\(RefusalCause.address.status))"
    case .refused(let refusal): "responds with \(refusal.status)"
    case .wait: "waits; the explanation ends here"
    }
  }
}

extension StepOutcome {
  fileprivate func fact(of step: String) -> ExplainTrace.Fact? {
    switch self {
    case .denied, .fail, .responded: .refusal(step: step)
    case .wait: .waits
    case .next, .granted, .uriChanged, .uriChanges, .endPhase, .skip: nil
    }
  }

  fileprivate func inWords(_ exchange: Exchange) -> String {
    switch self {
    case .next: "goes on"
    case .granted: "admits the client"
    case .denied(let failure): "denies the client (\(failure.code))"
    case .fail(let failure): "responds with \(failure.code)"
    case .responded: "responds"
    case .wait: "waits; the explanation ends here"
    case .uriChanged: "the path is now \(exchange.target.uri.readable.text); its location is found anew"
    case .uriChanges: "the path is now \(exchange.target.uri.readable.text)"
    case .endPhase: "ends the rewrite phase; the path is \(exchange.target.uri.readable.text)"
    case .skip(let count): "does not hold; \(count) step\(count == 1 ? "" : "s") left out"
    }
  }
}
