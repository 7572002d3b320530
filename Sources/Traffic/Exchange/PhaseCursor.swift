/// The result of a step.
public enum StepOutcome: Equatable {
  /// The step has no objection; the next step runs.
  case next
  /// Access only: the step admits the client. With `satisfy any`, one such step is enough.
  case granted
  /// Access only: the step denies the client. With `satisfy any`, another step can still admit the client.
  case denied(ErrorResponse)
  /// The exchange responds with an error.
  case fail(ErrorResponse)
  /// The step has sent a response, or has ended the exchange.
  case responded
  /// The step waits, and later calls `Exchange.resume` with its outcome.
  case wait
  /// The step changed the path, so the exchange finds the location again after the phase (`rewrite … last`).
  case uriChanged
  /// The step changed the path, and the next step runs first (`rewrite` without a flag).
  case uriChanges
  /// The phase ends, and the exchange stays in its location although the path may have changed (`break`).
  case endPhase
  /// The condition of an `if` doesn't hold: this many steps, those of its block, are left out.
  case skip(Int)
}

/// The result of a step that requests and sessions of `stream` share.
public enum RuleOutcome: Equatable, Sendable {
  /// The step has no objection; the next step runs.
  case next
  /// The step admits the client. With `satisfy any`, one such step is enough for a request.
  case granted
  case refused(RefusalCause)
  /// The step waits, and later calls `Transaction.resume` with its outcome.
  case wait
}

/// nginx's `satisfy`: whether every step of the access phase must admit the client, or one is enough.
package enum Satisfy: Sendable, Equatable {
  case all, any
}

/// What the exchange does next.
enum PhaseAction: Equatable {
  /// Run this step of this phase.
  case run(Phase, step: Int)
  case findLocation
  /// Start the location's content handler.
  case startContent
  case fail(ErrorResponse)
  /// Do nothing: the exchange waits for a step, or has its response.
  case stop
}

/// The number of steps in each phase, of the server block and of the current location.
struct PhaseCounts: Equatable {
  var serverRewrite = 0
  var rewrite = 0
  var preaccess = 0
  var access = 0
  var postAccess = 0
  var precontent = 0

  init(
    serverRewrite: Int = 0, rewrite: Int = 0, preaccess: Int = 0, access: Int = 0, postAccess: Int = 0,
    precontent: Int = 0
  ) {
    self.serverRewrite = serverRewrite
    self.rewrite = rewrite
    self.preaccess = preaccess
    self.access = access
    self.postAccess = postAccess
    self.precontent = precontent
  }

  init(_ server: [PhaseStep], _ steps: PhaseSteps) {
    self.init(
      serverRewrite: server.count, rewrite: steps.rewrite.count, preaccess: steps.preaccess.count,
      access: steps.access.count, postAccess: steps.postAccess.count, precontent: steps.precontent.count)
  }

  /// Those of a subrequest: as in nginx, who may send the main request was judged for that.
  var ofSubrequest: PhaseCounts {
    var counts = self
    counts.access = 0
    counts.postAccess = 0
    return counts
  }

  /// Those of a `ReadingProbe`: what says who may enter.
  var ofReading: PhaseCounts {
    var counts = self
    counts.preaccess = 0
    counts.postAccess = 0
    counts.precontent = 0
    return counts
  }

  func callAsFunction(_ phase: Phase) -> Int {
    switch phase {
    case .serverRewrite: serverRewrite
    case .rewrite: rewrite
    case .preaccess: preaccess
    case .access: access
    case .postAccess: postAccess
    case .precontent: precontent
    case .findLocation, .postRewrite, .content: 0
    }
  }
}

/// The current phase and step of an exchange: a pure state machine. The outcome of a step goes in, one action comes
/// out.
///
///     serverRewrite ─► findLocation ─► rewrite ─► postRewrite ─► preaccess ─► access ─► postAccess ─► precontent ─► content
///                           ▲                         │
///                           └──────── uriChanged ─────┘
struct PhaseCursor {
  private(set) var phase = Phase.serverRewrite
  private var step = 0
  private var isURIChanged = false
  /// `satisfy any`: the failure of the steps that denied the client so far.
  private var denial: ErrorResponse?
  /// How many times the exchange had to find the location again; nginx gives up after ten.
  private var locationChanges = 0
  private static let locationChangeLimit = 10
  /// After too many changes, no error page follows: it would be one more.
  var isExhausted: Bool { locationChanges > Self.locationChangeLimit }

  /// Restarts at the server rewrite phase, for an internal redirect to a path. Returns false after too many changes.
  mutating func restart() -> Bool {
    let changes = locationChanges + 1
    self = PhaseCursor()
    locationChanges = changes
    return !isExhausted
  }

  /// Counts an internal redirect to a named location. Returns false after too many changes.
  mutating func countRedirect() -> Bool {
    locationChanges += 1
    return !isExhausted
  }

  /// Continues at the rewrite phase of a location that was found, or that a named error page names.
  mutating func enterLocation(_ counts: PhaseCounts, _ satisfy: Satisfy) -> PhaseAction {
    denial = nil
    isURIChanged = false
    begin(.rewrite)
    return next(counts, satisfy)
  }

  /// The next action, at the start of a request.
  mutating func next(_ counts: PhaseCounts, _ satisfy: Satisfy) -> PhaseAction {
    while true {
      if step < counts(phase) { return .run(phase, step: step) }
      switch phase {
      case .findLocation: return .findLocation
      case .content: return .startContent
      case .serverRewrite:
        // The search for a location follows anyway.
        isURIChanged = false
        begin(.findLocation)
      case .rewrite where isURIChanged:
        isURIChanged = false
        locationChanges += 1
        guard locationChanges <= Self.locationChangeLimit else { return .fail(ErrorResponse(500)) }
        begin(.findLocation)
      case .access:
        // With `satisfy any`, no step has admitted the client.
        if let denial { return .fail(denial) }
        begin(.postAccess)
      default: begin(Phase(rawValue: phase.rawValue + 1) ?? .content)
      }
    }
  }

  /// The next action after a step with this outcome.
  mutating func take(_ outcome: StepOutcome, _ counts: PhaseCounts, _ satisfy: Satisfy) -> PhaseAction {
    switch outcome {
    case .next: step += 1
    case .granted:
      if satisfy == .any {
        denial = nil
        begin(.postAccess)
      } else {
        step += 1
      }
    case .denied(let failure):
      guard satisfy == .any else { return .fail(failure) }
      // As in nginx, a 401 with its challenge takes precedence over another denial.
      if denial?.code != 401 { denial = failure }
      step += 1
    case .uriChanged:
      isURIChanged = true
      step = counts(phase)
    case .uriChanges:
      isURIChanged = true
      step += 1
    case .endPhase:
      isURIChanged = false
      step = counts(phase)
    case .skip(let count): step += 1 + count
    case .fail(let failure): return .fail(failure)
    case .responded, .wait: return .stop
    }
    return next(counts, satisfy)
  }

  private mutating func begin(_ phase: Phase) {
    self.phase = phase
    step = 0
  }
}

/// One step of a phase: a directive of a location, compiled at load. A step keeps no state of a request.
open class PhaseStep {
  public init() {}

  open func run(_ exchange: Exchange) -> StepOutcome { .next }
  /// The directive, for `sallyport check --explain`.
  open var words: String { "\(Self.self)" }
  /// Whether the step asks for a condition, and leaves steps out if it doesn't hold.
  open var isCondition: Bool { false }
  /// Runs for an explanation, in which nothing outside the process may be asked. A step that would ask tells the trace,
  /// and returns the outcome that the explanation assumes.
  open func rehearse(_ exchange: Exchange, _ trace: ExplainTrace) -> StepOutcome { run(exchange) }
}

/// A step of requests and of sessions of `stream` alike.
open class SharedStep: PhaseStep {

  open func judge(_ transaction: Transaction) -> RuleOutcome { .refused(.fault) }
  /// Does so for an explanation, as `PhaseStep.rehearse`.
  open func rehearse(judging transaction: Transaction, _ trace: ExplainTrace) -> RuleOutcome { judge(transaction) }

  public final override func run(_ exchange: Exchange) -> StepOutcome { StepOutcome(judge(exchange), of: exchange) }
  public final override func rehearse(_ exchange: Exchange, _ trace: ExplainTrace) -> StepOutcome {
    StepOutcome(rehearse(judging: exchange, trace), of: exchange)
  }
}

extension StepOutcome {
  /// What a request makes of it. Another step can still admit a client whom its address denies (`satisfy any`).
  package init(_ outcome: RuleOutcome, of exchange: Exchange) {
    switch outcome {
    case .next: self = .next
    case .granted: self = .granted
    case .wait: self = .wait
    case .refused(.address): self = .denied(ErrorResponse(RefusalCause.address.status))
    case .refused(.limit(status: 444)):
      exchange.end(.silent)
      self = .responded
    case .refused(let refusal):
      if case .limit(let status) = refusal { exchange.wasLimited(to: status) }
      self = .fail(ErrorResponse(refusal.status))
    }
  }
}

/// What stands for a step that isn't there: nobody gets in by it.
private final class MissingStep: PhaseStep {
  override func run(_ exchange: Exchange) -> StepOutcome { .fail(ErrorResponse(500)) }
}

/// The steps of a server block or a location, by phase, in the order of the configuration or of nginx's modules.
package struct PhaseSteps {
  package var rewrite: [PhaseStep] = []
  package var preaccess: [PhaseStep] = []
  package var access: [PhaseStep] = []
  /// Behind `satisfy`: no step of the access phase overrides them.
  package var postAccess: [PhaseStep] = []
  package var precontent: [PhaseStep] = []
  package var satisfy = Satisfy.all
  // Those of the two phases that sessions of `stream` run too.
  private var sharedPreaccess: [SharedStep] = []
  private var sharedAccess: [SharedStep] = []

  package mutating func add(preaccess step: SharedStep) {
    preaccess.append(step)
    sharedPreaccess.append(step)
  }

  package mutating func add(access step: SharedStep) {
    access.append(step)
    sharedAccess.append(step)
  }

  /// What a session runs, in nginx's order.
  var ofSessions: [SharedStep] { sharedPreaccess + sharedAccess }

  /// The step of a location's phase. An index is the cursor's, below the count that it was given.
  package func step(_ phase: Phase, _ index: Int) -> PhaseStep {
    let steps =
      switch phase {
      case .rewrite: rewrite
      case .preaccess: preaccess
      case .access: access
      case .postAccess: postAccess
      case .precontent: precontent
      case .serverRewrite, .findLocation, .postRewrite, .content: [PhaseStep]()
      }
    return steps.indices.contains(index) ? steps[index] : MissingStep()
  }

  package var isEmpty: Bool {
    rewrite.isEmpty && preaccess.isEmpty && access.isEmpty && postAccess.isEmpty && precontent.isEmpty
  }
}
