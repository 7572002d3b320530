import Bytes
import Synchronization

/// What an explained request did, in order. Steps and contents that were made with a trace tell it.
public final class ExplainTrace: Sendable {
  /// One line of the report.
  package struct Line: Sendable {
    package var label: String
    package var text: String
    /// The content whose policy can follow; nil: the line is of something else.
    package var content: (any ContentDirectives)?

    package init(label: String, text: String, content: (any ContentDirectives)? = nil) {
      self.label = label
      self.text = text
      self.content = content
    }
  }

  private struct State {
    var lines: [Line] = []
    var location: ObjectIdentifier?
  }

  private let state = Mutex(State())

  package init() {}

  package var lines: [Line] { state.withLock { $0.lines } }

  package func add(_ label: String, _ text: String) { add(Line(label: label, text: text)) }

  package func add(_ line: Line) { state.withLock { $0.lines.append(line) } }

  /// Adds a line and returns its number, for `complete`.
  private func begin(_ label: String, _ text: String) -> Int {
    state.withLock { state in
      state.lines.append(Line(label: label, text: text))
      return state.lines.count - 1
    }
  }

  private func complete(_ index: Int, _ text: String) {
    state.withLock { state in
      if state.lines.indices.contains(index) { state.lines[index].text += text }
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
      trace.complete(line, ": \(outcome.words)")
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
      trace.complete(line, ": \(holds ? "holds" : outcome.inWords(exchange))")
      return outcome
    }
  }
}

extension RuleOutcome {
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
