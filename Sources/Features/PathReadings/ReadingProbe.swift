import Forward
import HTTP
import Observability
package import Traffic

/// Asks one location whether it would admit a request by another reading of its path: a subrequest that ends where the
/// content would begin. The location's rewrite and access phases run once, with the client, the fields and the method of the
/// main request; `auth_basic` and `auth_request` ask whom they always ask. Nothing goes to the location's upstream.
///
///     main exchange ─► ReadingProbe ◄─► exchange of the reading ─► rewrite ─► access ─► admitted
package final class ReadingProbe: Subrequest {
  private let candidate: ReadingCandidate
  private let rest: ArraySlice<ReadingCandidate>
  /// nil once the main exchange has the outcome or has given the probe up.
  private var main: Exchange?
  private var isAdmitted = false
  private var isStarting = true
  private var isOver = false
  /// Of a 401: what the client is asked.
  private var challenge: FieldBlock?

  private init(_ candidate: ReadingCandidate, _ rest: ArraySlice<ReadingCandidate>, under main: Exchange) {
    self.candidate = candidate
    self.rest = rest
    self.main = main
    super.init(under: main, role: .reading)
  }

  /// Asks one location after the other. Returns `wait` if one must wait; then the main exchange is resumed.
  static func judge(_ candidates: ArraySlice<ReadingCandidate>, of main: Exchange) -> StepOutcome {
    var rest = candidates
    while let candidate = rest.popFirst() {
      let outcome = ReadingProbe(candidate, rest, under: main).start()
      guard outcome == .next else { return outcome }
    }
    main.noteAdmittedReadings()
    return .next
  }

  private func start() -> StepOutcome {
    guard let main else { return .responded }
    main.internalRequests.begin(self)
    let exchange = main.worker.takeExchange()
    exchange.head.copy(main.head, as: .whole)
    exchange.inheritStates(of: main)
    self.exchange = exchange
    exchange.begin(self, reading: candidate.path, in: candidate.location, under: main)
    isStarting = false
    guard self.main != nil else { return .responded }
    return isOver ? settle(main) : .wait
  }

  /// The location has admitted the client.
  package override func didAdmit() { isAdmitted = true }

  package override func giveUp() {
    main = nil
    abandon(.clientLeft)
  }

  package override func subrequestWillEnd(_ exchange: Exchange, _ reason: EndReason) -> Bool {
    challenge = exchange.progress.ownFields
    return false
  }

  package override func didEnd(isWhole: Bool) {
    isOver = true
    guard let main, !isStarting else { return }
    var outcome = settle(main)
    if outcome == .next { outcome = Self.judge(rest, of: main) }
    if outcome != .wait { main.resume(outcome) }
  }

  private func settle(_ main: Exchange) -> StepOutcome {
    self.main = nil
    main.internalRequests.subrequestDidEnd()
    if isAdmitted { return .next }
    switch status {
    // A redirect, or a text for everybody: the location keeps nobody out.
    case (200..<400)?: return .next
    case 401?:
      // The client is asked, so that it can answer.
      if let challenge { main.setOwnFields(challenge) }
      _ = PathReadingStep.refuse(candidate, main)
      return .fail(ErrorResponse(401))
    case let status? where status == 429 || status >= 500:
      if let challenge { main.setOwnFields(challenge) }
      return .fail(ErrorResponse(Int(status)))
    default: return .fail(PathReadingStep.refuse(candidate, main))
    }
  }
}
