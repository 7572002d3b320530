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
