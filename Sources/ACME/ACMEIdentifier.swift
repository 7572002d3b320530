import Crypto
import Transport

/// A name that a certificate is asked for: a host name (RFC 8555 §9.7.7), perhaps with a leading wildcard, or an IP address
/// (RFC 8738).
package enum ACMEIdentifier: Sendable, Hashable, CustomStringConvertible {
  /// Lower case, without a trailing dot.
  case dns(String)
  /// In the usual notation of inet_ntop.
  case ip(String)

  /// Returns nil for a text that is neither: a name with one label, `*` elsewhere than as the whole first label, a
  /// character that host names don't have.
  package init?(_ text: String) {
    if let address = SocketAddress(literal: text, port: 0) {
      self = .ip(address.host)
      return
    }
    var name = text.lowercased()
    if name.hasSuffix(".") { name.removeLast() }
    let base = name.hasPrefix("*.") ? name.dropFirst(2) : name[...]
    let labels = base.split(separator: ".", omittingEmptySubsequences: false)
    let isName = labels.allSatisfy { label in
      (1...63).contains(label.utf8.count) && !label.hasPrefix("-") && !label.hasSuffix("-")
        && label.utf8.allSatisfy { $0 &- 97 < 26 || $0 &- 48 < 10 || $0 == UInt8(ascii: "-") }
    }
    // A last label of digits would be an IP address to some readers (WHATWG URL).
    guard isName, (1...253).contains(base.utf8.count), labels.last?.utf8.contains(where: { $0 &- 48 >= 10 }) ?? false
    else { return nil }
    self = .dns(name)
  }

  package var description: String {
    switch self {
    case .dns(let name): name
    case .ip(let address): address
    }
  }

  package var isWildcard: Bool { if case .dns(let name) = self { name.hasPrefix("*.") } else { false } }

  /// The identifier that an authorization of it has: without the wildcard (RFC 8555 §7.1.4).
  package var authorized: ACMEIdentifier {
    if case .dns(let name) = self, name.hasPrefix("*.") { .dns(String(name.dropFirst(2))) } else { self }
  }

  var kind: String {
    switch self {
    case .dns: "dns"
    case .ip: "ip"
    }
  }

  /// As a certificate names it.
  var alternativeName: CertificateBuilder.AlternativeName {
    switch self {
    case .dns(let name): .dns(name)
    case .ip(let address): .ip(address)
    }
  }

  /// The SNI of a handshake of tls-alpn-01: the name, or an IP address in the form of reverse DNS (RFC 8738 §6).
  package var serverName: String {
    guard case .ip(let text) = self else { return description }
    switch SocketAddress(literal: text, port: 0) {
    case .ipv4(let address, _)?:
      return (0..<4).map { "\(address >> (8 * UInt32($0)) & 0xFF)" }.joined(separator: ".") + ".in-addr.arpa"
    case .ipv6(let high, let low, _)?:
      let digits = [low, high].flatMap { part in (0..<16).map { String(part >> (4 * UInt64($0)) & 0xF, radix: 16) } }
      return digits.joined(separator: ".") + ".ip6.arpa"
    case .unix?, .name?, nil: return text
    }
  }

  /// Whether a certificate's name is this one.
  func matches(_ name: SubjectAlternativeName) -> Bool {
    switch self {
    case .dns(let text): name.kind == .dns && name.description.lowercased() == text
    case .ip(let text): name.kind == .ip && ACMEIdentifier(name.description) == .ip(text)
    }
  }
}
