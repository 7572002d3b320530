import Observability
import Transport

/// `allow` and `deny`: the first rule that matches the client's address decides. Without such a rule, the outcome is
/// `next`.
final class AddressAccess: PhaseStep {
  private let rules: [AccessRule]

  init(_ rules: [AccessRule]) { self.rules = rules }

  override func run(_ exchange: Exchange) -> StepOutcome {
    switch rules.first(for: exchange.clientAddress)?.allows {
    case nil: return .next
    case true?: return .granted
    case false?:
      exchange.log(.error, "access forbidden by rule")
      return .denied(ErrorResponse(403))
    }
  }

  override var words: String { "allow and deny" }

  override func rehearse(_ exchange: Exchange, _ trace: ExplainTrace) -> StepOutcome {
    let rule = rules.first(for: exchange.clientAddress)
    let address = exchange.clientAddress.host
    trace.add(
      "rule",
      rule.map { "\($0.asWritten)  \($0.location)  decides on \(address)" } ?? "no allow or deny is for \(address)")
    return run(exchange)
  }
}
