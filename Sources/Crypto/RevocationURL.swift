import Bytes

/// The address of a revocation list: a parsed `http://` URL.
///
/// Lists are signed, so TLS would add only another certificate to check, and whose own list would be needed first. Never
/// another scheme: `file:` and `ldap:` of a certificate would make the server read what its issuer chooses.
public struct RevocationURL: Sendable, Hashable, CustomStringConvertible {
  /// In lower case, without brackets.
  package let host: String
  package let port: UInt16
  /// Path and query, as a request line has them.
  package let target: String
  public let description: String

  /// The largest length of a URL in bytes.
  package static let lengthLimit = 1024

  private static let scheme = "http://"

  /// Whether a word is a URL, of whatever scheme, and not the name of a file.
  package static func isURL(_ text: String) -> Bool { text.contains("://") }

  /// Returns nil for anything but `http://HOST[:PORT][/PATH]` in visible ASCII: no user, no fragment, no port 0.
  package init?(_ text: String) {
    let bytes = text.utf8
    guard bytes.count <= Self.lengthLimit, bytes.allSatisfy({ (0x21...0x7E).contains($0) && $0 != 0x22 }),
      bytes.count > Self.scheme.utf8.count,
      bytes.prefix(Self.scheme.utf8.count).map({ ASCII.lower($0) }) == Array(Self.scheme.utf8)
    else { return nil }
    let rest = text.dropFirst(Self.scheme.count)
    let end = rest.firstIndex { $0 == "/" || $0 == "?" } ?? rest.endIndex
    let authority = rest[..<end], tail = rest[end...]
    guard !tail.contains("#"), let parts = try? HostPort(authority), Self.isHost(parts) else { return nil }
    host = String(decoding: parts.host.utf8.map { ASCII.lower($0) }, as: UTF8.self)
    port = parts.port ?? 80
    target = tail.hasPrefix("/") ? String(tail) : "/\(tail)"
    description = text
  }

  private static func isHost(_ parts: HostPort) -> Bool {
    guard parts.host.utf8.count <= 253 else { return false }
    return parts.host.utf8.allSatisfy { byte in
      if parts.isBracketed { return ASCII.hexValue(byte) != nil || byte == 0x3A || byte == 0x2E }
      return ASCII.isDigit(byte) || ASCII.lower(byte) &- 97 < 26 || byte == 0x2D || byte == 0x2E || byte == 0x5F
    }
  }

  /// The value of the Host field.
  package var authority: String {
    (host.contains(":") ? "[\(host)]" : host) + (port == 80 ? "" : ":\(port)")
  }
}
