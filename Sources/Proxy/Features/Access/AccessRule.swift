import Language
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
    let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
    let length = parts.count > 1 ? Quantity.number(parts[1]) : nil
    let isWhole = parts.count == 1
    switch SocketAddress(literal: parts[0], port: 0) {
    case .ipv4(let address, _)?:
      guard let length = isWhole ? 32 : length, (0...32).contains(length) else { return nil }
      let mask = length == 0 ? 0 : UInt32.max << (32 - UInt32(length))
      return (.ipv4(network: address & mask, mask: mask), address & ~mask != 0)
    case .ipv6(let high, let low, _)?:
      guard let length = isWhole ? 128 : length, (0...128).contains(length) else { return nil }
      let highMask = length == 0 ? 0 : UInt64.max << UInt64(64 - min(64, length))
      let lowMask = length <= 64 ? 0 : UInt64.max << UInt64(128 - length)
      return (
        .ipv6(high: high & highMask, low: low & lowMask, prefixLength: length),
        high & ~highMask != 0 || low & ~lowMask != 0
      )
    case .unix?, nil: return nil
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
