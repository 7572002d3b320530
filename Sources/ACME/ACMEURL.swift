import Bytes
import Transport

/// An https URL of an ACME server: parsed, without user, fragment and control characters.
package struct ACMEURL: Sendable, Hashable, CustomStringConvertible {
  /// Lower case, an IPv6 address without brackets.
  package let host: String
  package let port: UInt16
  /// The path with its query; it begins with a slash.
  package let target: String

  private static let longest = 2048

  /// Returns nil for anything else than such a URL.
  package init?(_ text: String) {
    guard text.utf8.count <= Self.longest, text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }),
      text.prefix(8).lowercased() == "https://"
    else { return nil }
    let rest = text.dropFirst(8)
    let end = rest.firstIndex { $0 == "/" || $0 == "?" || $0 == "#" } ?? rest.endIndex
    guard !rest.contains("#"), let place = try? HostPort(rest[..<end]), Self.isHost(place) else { return nil }
    host = place.host.lowercased()
    port = place.port ?? 443
    let target = String(rest[end...])
    self.target = target.hasPrefix("/") ? target : "/" + target
  }

  private static func isHost(_ place: HostPort) -> Bool {
    if place.isBracketed {
      if case .ipv6? = SocketAddress(literal: place.host, port: 0) { return true }
      return false
    }
    return place.host.utf8.allSatisfy { byte in
      (byte | 0x20) &- 97 < 26 || byte &- 48 < 10 || byte == UInt8(ascii: "-") || byte == UInt8(ascii: ".")
    }
  }

  /// As a Host field has it.
  package var authority: String {
    (host.contains(":") ? "[\(host)]" : host) + (port == 443 ? "" : ":\(port)")
  }

  package var description: String { "https://\(authority)\(target)" }

  /// Whether both lead to the same server.
  package func hasOrigin(of other: ACMEURL) -> Bool { host == other.host && port == other.port }
}
