public import Observability
import Transport

/// One `allow` or `deny` line. The first that matches decides.
public struct AccessRule: Sendable, Hashable {
  public enum Source: Sendable, Hashable {
    case all
    case unix
    /// Host byte order, already masked.
    case ipv4(network: UInt32, mask: UInt32)
    case ipv6(high: UInt64, low: UInt64, prefixLength: Int)
  }
  public var allows: Bool
  public var source: Source
  public var location: SourceLocation
  public init(allows: Bool, source: Source, location: SourceLocation) {
    self.allows = allows
    self.source = source
    self.location = location
  }
}

extension AccessRule.Source {
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

extension AccessRule {
  /// `deny 10.0.0.0/8`.
  package var asWritten: String { "\(allows ? "allow" : "deny") \(source.asWritten)" }
}

extension AccessRule.Source {
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
