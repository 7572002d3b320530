package import Observability
import Traffic
import Transport

/// One `allow` or `deny` line. The first that matches decides.
package struct AccessRule: Sendable, Hashable {
  package enum Source: Sendable, Hashable {
    case all
    case unix
    /// Host byte order, already masked.
    case ipv4(network: UInt32, mask: UInt32)
    case ipv6(high: UInt64, low: UInt64, prefixLength: Int)
  }
  package var allows: Bool
  package var source: Source
  package var location: SourceLocation

  /// `deny 10.0.0.0/8`.
  package var asWritten: String { "\(allows ? "allow" : "deny") \(source.asWritten)" }
}

extension AccessRule.Source {
  /// It has every address of its family.
  var isEverybody: Bool {
    switch self {
    case .all: true
    case .unix: false
    case .ipv4(_, let mask): mask == 0
    case .ipv6(_, _, let length): length == 0
    }
  }

  /// The network that a range is, as `AddressRange.parse` makes it.
  package init(network: AddressRange) {
    let host = network.first ^ network.last
    if network.isIPv4 {
      let mask = ~UInt32(truncatingIfNeeded: host)
      self = .ipv4(network: UInt32(truncatingIfNeeded: network.first) & mask, mask: mask)
    } else {
      self = .ipv6(
        high: UInt64(truncatingIfNeeded: network.first >> 64), low: UInt64(truncatingIfNeeded: network.first),
        prefixLength: host.leadingZeroBitCount)
    }
  }

  /// An IP address, or ADDRESS/BITS, and whether bits outside the network are set; nil for other text.
  static func parse(_ text: String) -> (source: AccessRule.Source, hasHostBits: Bool)? {
    AddressRange.parse(text).map { (AccessRule.Source(network: $0.range), !$0.isExact) }
  }

  /// Whether it is of IPv4 addresses, among others.
  var hasIPv4: Bool {
    switch self {
    case .all, .ipv4: true
    case .unix, .ipv6: false
    }
  }
}

extension AccessRule.Source {
  /// An address of it; nil for all addresses.
  var first: SocketAddress? {
    switch self {
    case .all: nil
    case .unix: .unix(path: "")
    case .ipv4(let network, let mask): .ipv4(address: mask == .max ? network : network | 1, port: 40_000)
    case .ipv6(let high, let low, let length): .ipv6(high: high, low: length == 128 ? low : low | 1, port: 40_000)
    }
  }

  package var asWritten: String {
    switch self {
    case .all: return "all"
    case .unix: return "unix:"
    case .ipv4(let network, let mask):
      let text = SocketAddress.ipv4(address: network, port: 0).host
      return mask == .max ? text : "\(text)/\(mask.nonzeroBitCount)"
    case .ipv6(let high, let low, let length):
      let text = SocketAddress.ipv6(high: high, low: low, port: 0).host
      return length == 128 ? text : "\(text)/\(length)"
    }
  }
}

extension [AccessRule] {
  /// The rule that decides on a client's address; nil: none matches.
  ///
  /// As in nginx, rules of IPv6 count for an IPv4 client of a dual-stack socket (`::ffff:a.b.c.d`) only where none is of IPv4:
  /// `deny ::/0` alone denies it, and `allow ::/0; deny all` does not allow it.
  func first(for peer: SocketAddress) -> AccessRule? {
    let address = peer.unmapped
    if let rule = first(where: { $0.source.contains(address) }) { return rule }
    if address == peer || contains(where: \.source.hasIPv4) { return nil }
    return first { $0.source.holds(peer) }
  }
}

extension AccessRule.Source {
  /// Whether a client's address is in the network.
  func contains(_ peer: SocketAddress) -> Bool { holds(peer.unmapped) }

  /// Whether an address as it came is in the network: an IPv4 address of a dual-stack socket is one of IPv6.
  fileprivate func holds(_ peer: SocketAddress) -> Bool {
    switch (self, peer) {
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
