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
    let rule = Self.rule(for: exchange.clientAddress, rules)
    let address = exchange.clientAddress.host
    trace.add(
      "rule",
      rule.map { "\($0.asWritten)  \($0.location)  decides on \(address)" } ?? "no allow or deny is for \(address)")
    return run(exchange)
  }

  /// nil if no rule matches.
  static func decision(for peer: SocketAddress, _ rules: [AccessRule]) -> Bool? { rule(for: peer, rules)?.allows }

  /// As in nginx, rules of IPv6 count for an IPv4 client of a dual-stack socket (`::ffff:a.b.c.d`) only where none is of IPv4:
  /// `deny ::/0` alone denies it, and `allow ::/0; deny all` does not allow it.
  private static func rule(for peer: SocketAddress, _ rules: [AccessRule]) -> AccessRule? {
    let address = peer.unmapped
    if let rule = rules.first(where: { matches(address, $0.source) }) { return rule }
    if address == peer || rules.contains(where: \.source.hasIPv4) { return nil }
    return rules.first { isIn(peer, $0.source) }
  }

  /// Whether a client's address is in a network.
  static func matches(_ peer: SocketAddress, _ source: AccessRule.Source) -> Bool { isIn(peer.unmapped, source) }

  private static func isIn(_ peer: SocketAddress, _ source: AccessRule.Source) -> Bool {
    switch (source, peer) {
    case (.all, _): return true
    case (.unix, .unix): return true
    case (.ipv4(let network, let mask), .ipv4(let address, _)): return address & mask == network
    case (.ipv6(let high, let low, let length), .ipv6(let peerHigh, let peerLow, _)):
      let highMask = length >= 64 ? UInt64.max : length == 0 ? 0 : ~(UInt64.max >> UInt64(length))
      let lowMask = length <= 64 ? 0 : length >= 128 ? UInt64.max : ~(UInt64.max >> UInt64(length - 64))
      return peerHigh & highMask == high & highMask && peerLow & lowMask == low & lowMask
    default: return false
    }
  }
}
