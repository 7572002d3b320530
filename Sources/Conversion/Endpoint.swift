/// An address of an old configuration: a host and a port, or the path of a socket.
struct Endpoint: Hashable {
  enum Place: Hashable {
    /// Host nil: none is given, which means another one for each peer.
    case port(host: String?, port: Int)
    case socket(path: String)
  }

  let place: Place

  /// `HOST:PORT`, `[HOST]:PORT`, `:PORT`, `PORT`, where the last colon ends an address of IPv6 too. nil: it is none.
  init?(_ text: String) {
    var host: String?
    var port = text
    if let colon = text.utf8.lastIndex(of: UInt8(ascii: ":")) {
      host = String(text[..<colon])
      port = String(text[text.utf8.index(after: colon)...])
    }
    if let bracketed = host, bracketed.hasPrefix("["), bracketed.hasSuffix("]") {
      host = String(bracketed.dropFirst().dropLast())
      guard host?.contains(":") == true else { return nil }
    }
    if host?.isEmpty == true || host == "*" { host = nil }
    guard let number = Int(port) ?? Self.services[port.lowercased()], (1...65535).contains(number),
      port.utf8.first != UInt8(ascii: "+"), host.map(Self.isHost) ?? true
    else { return nil }
    place = .port(host: host, port: number)
  }

  init(socket path: String) { place = .socket(path: path) }

  init(host: String?, port: Int) { place = .port(host: host, port: port) }

  /// A name, or an address of IPv4 or IPv6 without brackets.
  static func isHost(_ text: String) -> Bool {
    guard !text.isEmpty, text.utf8.count <= 253 else { return false }
    if text.contains(":") {
      return text.utf8.allSatisfy { isHex($0) || $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: ".") }
    }
    return text.utf8.allSatisfy {
      isDigit($0) || isLetter($0) || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "_")
    } && !text.hasPrefix("-") && !text.hasPrefix(".")
  }

  static func isAddress(_ text: String) -> Bool {
    if text.contains(":") { return isHost(text) }
    let parts = text.split(separator: ".", omittingEmptySubsequences: false)
    return parts.count == 4 && parts.allSatisfy { $0.utf8.allSatisfy(isDigit) && (UInt8($0) != nil) }
  }

  var host: String? { if case .port(let host, _) = place { host } else { nil } }

  /// As `proxy_pass` and `server` of a group have it. `standard`: the host if none is given.
  func server(standard: String = "localhost") -> String {
    switch place {
    case .socket(let path): "unix:\(path)"
    case .port(let host, let port): "\(Self.bracketed(host ?? standard)):\(port)"
    }
  }

  /// As `listen` has it; nil for a name, because an address that its lookup changes would open another door.
  var listen: String? {
    switch place {
    case .socket(let path): return "unix:\(path)"
    case .port(nil, let port): return "\(port)"
    case .port("localhost"?, let port): return "127.0.0.1:\(port)"
    case .port(let host?, let port): return Self.isAddress(host) ? "\(Self.bracketed(host)):\(port)" : nil
    }
  }

  private static func bracketed(_ host: String) -> String { host.contains(":") ? "[\(host)]" : host }
  private static func isDigit(_ byte: UInt8) -> Bool { byte &- 48 < 10 }
  private static func isLetter(_ byte: UInt8) -> Bool { (byte | 0x20) &- 97 < 26 }
  private static func isHex(_ byte: UInt8) -> Bool { isDigit(byte) || (byte | 0x20) &- 97 < 6 }

  /// Ports that old files name as /etc/services does.
  private static let services: [String: Int] = [
    "http": 80, "https": 443, "smtp": 25, "smtps": 465, "ssmtp": 465, "submission": 587, "submissions": 465,
    "imap": 143,
    "imap2": 143, "imaps": 993, "pop3": 110, "pop3s": 995, "ldap": 389, "ldaps": 636, "postgresql": 5432, "mysql": 3306,
    "nntp": 119, "nntps": 563, "redis": 6379, "amqp": 5672, "amqps": 5671, "syslog-tls": 6514, "telnets": 992,
    "rsync": 873, "domain": 53, "domain-s": 853,
  ]
}
