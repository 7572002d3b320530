import Observability
import Transport
import Language

extension SettingsBuilder {
  /// Builds `set_real_ip_from`, `real_ip_header` and `real_ip_recursive`. Each is inherited on its own, as in nginx.
  mutating func realIP(_ scope: Scope) -> RealIPSettings? {
    let lines = scope.list("set_real_ip_from")
    guard !lines.isEmpty else { return nil }
    var settings = RealIPSettings(
      trusted: [], hosts: [], source: Self.realIPSource(scope.text("real_ip_header")),
      isRecursive: scope.flag("real_ip_recursive") ?? false)
    for line in lines {
      let text = line.text(0)
      if text == "unix:" {
        settings.trusted.append(.unix)
      } else if let (source, hasHostBits) = Self.network(text) {
        settings.trusted.append(source)
        if hasHostBits {
          warning(line.place(0), "low address bits of \"\(text)\" are meaningless", hint: "write the network's address")
        }
      } else if Self.isHostName(text) {
        settings.hosts.append(.init(name: text, location: line.place(0)))
      } else {
        error(line.place(0), "invalid parameter \"\(text)\"", hint: "an IP address, ADDRESS/BITS, unix: or a host name")
      }
    }
    return settings
  }

  private static func realIPSource(_ name: String?) -> RealIPSettings.Source {
    guard let name else { return .field(Array("x-real-ip".utf8)) }
    if name == "proxy_protocol" { return .proxyProtocol }
    let lower = name.lowercased()
    return lower == "x-forwarded-for" ? .forwardedFor : .field(Array(lower.utf8))
  }

  /// Whether the text can be a name; what looks like an address with a fault is none.
  private static func isHostName(_ text: String) -> Bool {
    let labels = text.split(separator: ".", omittingEmptySubsequences: false)
    return text.utf8.count <= 253 && text.utf8.contains { ($0 | 0x20) &- 97 < 26 }
      && labels.allSatisfy { !$0.isEmpty }
      && text.utf8.allSatisfy { TemplateCompiler.isNameByte($0) || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: ".") }
  }

  /// An IP address, or ADDRESS/BITS, and whether bits outside the network are set; nil for other text.
  static func network(_ text: String) -> (source: AccessRule.Source, hasHostBits: Bool)? {
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
