import Observability
import Transport

/// `allow` and `deny`: the first rule that matches the client's address decides. Without such a rule, the outcome is
/// `next`.
final class AddressAccess: PhaseStep {
  private let rules: [AccessRule]

  init(_ rules: [AccessRule]) { self.rules = rules }

  override func run(_ exchange: Exchange) -> StepOutcome {
    switch Self.decision(for: exchange.clientAddress, rules) {
    case nil: return .next
    case true?: return .granted
    case false?:
      exchange.log(.error, "access forbidden by rule")
      return .denied(ErrorResponse(403))
    }
  }

  override var words: String { "allow and deny" }

  override func rehearse(_ exchange: Exchange, _ trace: ExplainTrace) -> StepOutcome {
    let rule = rules.first { Self.matches(exchange.clientAddress, $0.source) }
    let address = exchange.clientAddress.host
    trace.add(
      "rule",
      rule.map { "\($0.asWritten)  \($0.location)  decides on \(address)" } ?? "no allow or deny is for \(address)")
    return run(exchange)
  }

  /// nil if no rule matches.
  static func decision(for peer: SocketAddress, _ rules: [AccessRule]) -> Bool? {
    rules.first { matches(peer, $0.source) }?.allows
  }

  static func matches(_ peer: SocketAddress, _ source: AccessRule.Source) -> Bool {
    switch (source, peer) {
    case (.all, _): return true
    case (.unix, .unix): return true
    case (.ipv4(let network, let mask), .ipv4(let address, _)): return address & mask == network
    case (.ipv4(let network, let mask), .ipv6(let high, let low, _)):
      // A client of a dual-stack socket: ::ffff:a.b.c.d.
      guard high == 0, low >> 32 == 0xFFFF else { return false }
      return UInt32(truncatingIfNeeded: low) & mask == network
    case (.ipv6(let high, let low, let length), .ipv6(let peerHigh, let peerLow, _)):
      let highMask = length >= 64 ? UInt64.max : length == 0 ? 0 : ~(UInt64.max >> UInt64(length))
      let lowMask = length <= 64 ? 0 : length >= 128 ? UInt64.max : ~(UInt64.max >> UInt64(length - 64))
      return peerHigh & highMask == high & highMask && peerLow & lowMask == low & lowMask
    default: return false
    }
  }
}
