import Forward
import Observability
import Traffic
import Transport

/// `allow` and `deny`: the first rule that matches the client's address decides. Without such a rule, the outcome is
/// `next`.
final class AddressAccess: SharedStep {
  private let rules: [AccessRule]

  init(_ rules: [AccessRule]) { self.rules = rules }

  override func judge(_ transaction: Transaction) -> RuleOutcome {
    switch rules.first(for: transaction.clientAddress)?.allows {
    case nil: return .next
    case true?: return .granted
    case false?:
      transaction.log(.error, "access forbidden by rule")
      return .refused(.address)
    }
  }

  override var words: String { "allow and deny" }

  override func rehearse(judging transaction: Transaction, _ trace: ExplainTrace) -> RuleOutcome {
    let rule = rules.first(for: transaction.clientAddress)
    let address = transaction.clientAddress.host
    trace.add(
      "rule",
      rule.map { "\($0.asWritten)  \($0.location)  decides on \(address)" } ?? "no allow or deny is for \(address)",
      rule.map { .rule($0.location, admits: $0.allows) })
    return judge(transaction)
  }
}
