import Bytes
import Forward
import HTTP
import Observability
package import Traffic

/// What the response to an `auth_request` means, as in nginx. A pure function: everything that is not a whole response
/// with one of these statuses is a fault, and never admits.
enum AuthorizationVerdict: Equatable {
  case admitted
  /// 401 or 403.
  case denied(ErrorResponse)
  case unexpected(UInt16)
  /// No response, or one that broke off.
  case incomplete

  init(status: UInt16?, isWhole: Bool) {
    guard let status, isWhole else {
      self = .incomplete
      return
    }
    switch status {
    case 200..<300: self = .admitted
    case 401, 403: self = .denied(ErrorResponse(Int(status)))
    default: self = .unexpected(status)
    }
  }
}

/// `auth_request`: a step of the access phase. It asks an upstream by a subrequest whether the request is admitted.
package final class AuthorizationStep: PhaseStep {
  fileprivate let path: [UInt8]
  fileprivate let variables: [(target: AuthRequest.Setting.Target, value: CompiledTemplate)]

  init(_ settings: AuthRequest) {
    path = settings.path
    variables = settings.variables.map { ($0.target, $0.value.compiled) }
  }

  package override func run(_ exchange: Exchange) -> StepOutcome {
    AuthorizationSubrequest(self, under: exchange).start()
  }

  package override var words: String { "auth_request \(LogEscape.text(path))" }

  package override func rehearse(_ exchange: Exchange, _ trace: ExplainTrace) -> StepOutcome {
    trace.asks("\(LogEscape.text(path)) by a subrequest; taken as admitted, its variables as empty")
    return .granted
  }
}

/// One `auth_request` of one exchange. It resumes the exchange with the outcome, unless the exchange gives it up first.
package final class AuthorizationSubrequest: Subrequest {
  private let step: AuthorizationStep
  /// nil once the main exchange has the outcome or has given the subrequest up.
  private var main: Exchange?
  private var verdict: AuthorizationVerdict?
  /// The values of `auth_request_set`, read before the subrequest's exchange is emptied.
  private var values: [[UInt8]] = []
  private var challenges: [(name: [UInt8], value: [UInt8])] = []
  private var isStarting = true

  fileprivate init(_ step: AuthorizationStep, under main: Exchange) {
    self.step = step
    self.main = main
    super.init(under: main)
  }

  fileprivate func start() -> StepOutcome {
    guard let main else { return .responded }
    main.internalRequests.begin(self)
    run(under: main, .bodilessGet, path: step.path, body: nil)
    isStarting = false
    guard self.main != nil else { return .responded }
    return verdict.map { settle($0, main) } ?? .wait
  }

  package override func giveUp() {
    main = nil
    abandon(.clientLeft)
  }

  package override func subrequestWillEnd(_ exchange: Exchange, _ reason: EndReason) -> Bool {
    if main != nil { read(exchange, reason) }
    return super.subrequestWillEnd(exchange, reason)
  }

  private func read(_ exchange: Exchange, _ reason: EndReason) {
    var verdict = AuthorizationVerdict(status: status, isWhole: reason == .complete)
    if verdict != .incomplete { values = step.variables.map { $0.value.bytes(exchange) } }
    // No decision may rest on a variable that could not be computed.
    if exchange.variables.isBroken { verdict = .incomplete }
    self.verdict = verdict
    guard verdict == .denied(ErrorResponse(401)) else { return }
    challenges = Self.challenges(of: exchange)
  }

  /// All `WWW-Authenticate` fields that a client of the subrequest would get.
  private static func challenges(of exchange: Exchange) -> [(name: [UInt8], value: [UInt8])] {
    guard let handler = exchange.handler, let response = handler.upstreamHead else { return [] }
    let bytes = response.bytes.readable
    return response.fields.filter { $0.id == .wwwAuthenticate && !handler.hides($0, in: bytes) }
      .map { (Array(bytes[$0.name]), Array(bytes[$0.value])) }
  }

  package override func didEnd(isWhole: Bool) {
    guard let main, !isStarting else { return }
    main.resume(settle(isWhole ? verdict ?? .incomplete : .incomplete, main))
  }

  private func settle(_ verdict: AuthorizationVerdict, _ main: Exchange) -> StepOutcome {
    self.main = nil
    main.internalRequests.subrequestDidEnd()
    for (index, variable) in step.variables.enumerated() {
      let value = verdict != .incomplete && values.indices.contains(index) ? values[index] : []
      switch variable.target {
      case .slot(let slot): main.set(slot, value)
      case .arguments: main.setArguments(value)
      }
    }
    switch verdict {
    case .admitted:
      // `satisfy any`: the challenge of another step is void.
      if main.location.steps.satisfy == .any { main.setOwnFields(FieldBlock([])) }
      return .granted
    case .denied(let failure):
      addChallenges(to: main)
      return .denied(failure)
    case .unexpected(let status):
      main.log(.error, "auth request unexpected status: \(status)")
      return .fail(ErrorResponse(500))
    case .incomplete:
      main.log(.error, "auth request got no whole response")
      return .fail(ErrorResponse(500))
    }
  }

  /// Adds the challenges to those of an earlier step.
  private func addChallenges(to main: Exchange) {
    guard !challenges.isEmpty else { return }
    main.setOwnFields(FieldBlock(challenges, after: main.progress.ownFields))
  }
}
