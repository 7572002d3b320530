import Identity
import Observability
import Transport

/// `allow` and `deny`: the first rule that matches decides; without one everybody may.
enum AccessCheck {
  static func allows(_ peer: SocketAddress, _ rules: [AccessRule]) -> Bool {
    for rule in rules where matches(peer, rule.source) { return rule.allows }
    return true
  }

  private static func matches(_ peer: SocketAddress, _ source: AccessRule.Source) -> Bool {
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

extension Exchange {
  /// Whether the location's rules on clients deny this one, which has then been answered. They are judged before anything
  /// of the location is done, `return` included, and count wherever the request came from: an error page, too.
  @inline(__always)
  func denies(_ location: LiveLocation) -> Bool {
    guard let rules = location.rules else { return false }
    return facts.standing.admittedBy != rules && judgeAndAnswer(location)
  }

  @inline(never)
  private func judgeAndAnswer(_ location: LiveLocation) -> Bool {
    guard let rules = location.settings.clientRules,
      case .denied(let place, let reason) = facts.standing.judge(by: rules, facts.tls, scratch: patternScratch)
    else { return false }
    worker.metrics.refusals.count(.rule)
    log(.error, ClientRules.message(place, reason) + facts.loggedClient)
    // `error_page 403 =200 …` leads here too: what it would say is not so.
    statusOverride = nil
    fail(Failure(403))
    return true
  }
}
