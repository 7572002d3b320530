/// A host with or without a port, as settings, commands and variables spell it: the authority of RFC 3986 without user
/// information.
///
/// Says how the text is divided and whether the port is one. Which hosts there may be is for the caller to say. The
/// authority of a request has a reading of its own (`HTTP`), over bytes and with RFC 9110's rules.
public struct HostPort: Sendable, Hashable {
  public enum Fault: Error, Sendable, Hashable {
    case noHost
    case missingBracket
    /// Something other than a colon and a port stands behind the bracket.
    case afterBracket
    /// No number from 1 to 65535.
    case port
  }

  /// How an IPv6 address without brackets is read, whose last colon could begin a port.
  public enum BareIPv6: Sendable, Hashable {
    case refused
    /// It is the host, and there is no port.
    case isHost
    /// The last colon begins a port.
    case endsInPort
  }

  /// Where a text is divided; neither part is judged.
  public struct Parts: Sendable, Hashable {
    /// Without brackets.
    public let host: Substring
    public let isBracketed: Bool
    /// What stands behind the colon; nil without a colon.
    public let port: Substring?

    public init(of text: Substring, bareIPv6: BareIPv6 = .refused) throws(Fault) {
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

  /// Not empty; without brackets.
  public let host: String
  public let isBracketed: Bool
  public let port: UInt16?

  public init(_ text: some StringProtocol, bareIPv6: BareIPv6 = .refused) throws(Fault) {
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

  /// A port, 1 to 65535, in digits alone: `+80` is none. nil for anything else.
  public static func port(_ text: some StringProtocol) -> UInt16? {
    guard text.utf8.allSatisfy({ $0 &- 0x30 < 10 }), let port = UInt16(text), port > 0 else { return nil }
    return port
  }
}
