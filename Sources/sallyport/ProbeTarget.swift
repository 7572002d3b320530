import Bytes

/// The server and path to probe.
struct ProbeTarget {
  let host: String
  let port: UInt16
  let path: String
  /// The value of the Host field.
  let authority: String

  /// Describes a server of an upstream group. `host`: the name that its certificate must be valid for.
  init(host: String, authority: String, path: String) {
    self.host = host
    self.port = 443
    self.authority = authority
    self.path = path
  }

  var url: String { "https://\(authority)\(path)" }

  /// Returns nil for anything but an https URL or HOST:PORT.
  init?(_ text: String) {
    var rest = Substring(text)
    if let scheme = text.range(of: "://") {
      guard text[..<scheme.lowerBound].lowercased() == "https" else { return nil }
      rest = text[scheme.upperBound...]
    }
    let end = rest.firstIndex { $0 == "/" || $0 == "?" } ?? rest.endIndex
    let authority = rest[..<end]
    let tail = rest[end...]
    path = tail.isEmpty ? "/" : tail.hasPrefix("?") ? "/\(tail)" : String(tail)
    guard path.utf8.allSatisfy({ $0 > 0x20 && $0 != 0x7F && $0 != 0x23 }), !authority.contains("@") else { return nil }
    guard let server = try? HostPort(authority) else { return nil }
    host = server.host
    port = server.port ?? 443
    let shown = host.contains(":") ? "[\(host)]" : host
    self.authority = port == 443 ? shown : "\(shown):\(port)"
    if !host.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) { return nil }
  }
}

extension String {
  fileprivate func range(of text: String) -> Range<Index>? { firstRange(of: text) }
}
