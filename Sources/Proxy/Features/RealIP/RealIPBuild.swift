import Observability
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
      } else if let (source, hasHostBits) = AccessRule.Source.parse(text) {
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
}
