/// A host with or without a port, as settings, commands and variables spell it: the authority of RFC 3986 without user
/// information.
///
/// This type splits the text and checks the port. The caller decides which hosts are valid. `HTTP` parses the authority
/// of a request by itself, over bytes and with RFC 9110's rules.
public struct HostPort: Sendable, Hashable {
  public enum ParseError: Error, Sendable, Hashable {
    case noHost
    case missingBracket
    /// Something other than a colon and a port follows the bracket.
    case afterBracket
    /// Not a number from 1 to 65535.
    case port
  }

  /// How to read an IPv6 address without brackets, whose last colon could begin a port.
  public enum BareIPv6: Sendable, Hashable {
    case refused
    /// The text is the host, without a port.
    case isHost
    /// The last colon begins a port.
    case endsInPort
  }

  /// The parts of a text, not validated.
  public struct Parts: Sendable, Hashable {
    /// Without brackets.
    public let host: Substring
    public let isBracketed: Bool
    /// The text after the colon; nil without a colon.
    public let port: Substring?

    public init(of text: Substring, bareIPv6: BareIPv6 = .refused) throws(ParseError) {
      if text.hasPrefix("[") {
        guard let end = text.firstIndex(of: "]") else { throw .missingBracket }
        let rest = text[text.index(after: end)...]
        guard rest.isEmpty || rest.hasPrefix(":") else { throw .afterBracket }
        (host, isBracketed) = (text[text.index(after: text.startIndex)..<end], true)
        port = rest.isEmpty ? nil : rest.dropFirst()
        return
      }
      isBracketed = false
      let first = text.firstIndex(of: ":"), last = text.lastIndex(of: ":")
      let isBare = first != last && bareIPv6 != .refused
      guard let colon = isBare ? last : first, !(isBare && bareIPv6 == .isHost) else {
        (host, port) = (text, nil)
        return
      }
      (host, port) = (text[..<colon], text[text.index(after: colon)...])
    }
  }

  /// Not empty, and without brackets.
  public let host: String
  public let isBracketed: Bool
  public let port: UInt16?

  public init(_ text: some StringProtocol, bareIPv6: BareIPv6 = .refused) throws(ParseError) {
    let parts = try Parts(of: Substring(text), bareIPv6: bareIPv6)
    guard !parts.host.isEmpty else { throw .noHost }
    (host, isBracketed) = (String(parts.host), parts.isBracketed)
    guard let digits = parts.port else {
      port = nil
      return
    }
    guard let number = Self.port(digits) else { throw .port }
    port = number
  }

  /// Parses a port, 1 to 65535, of digits only. Returns nil for anything else, such as `+80`.
  public static func port(_ text: some StringProtocol) -> UInt16? {
    guard text.utf8.allSatisfy({ $0 &- 0x30 < 10 }), let port = UInt16(text), port > 0 else { return nil }
    return port
  }
}
