import Traffic
import Forward

/// One value of `--to`: whether TLS is spoken to an upstream server, and its authority.
struct ProxyTarget: Hashable {
  let isTLS: Bool
  /// `HOST:PORT`, or `unix:/PATH`.
  let server: String
  /// The host without its port.
  let host: String
  /// What requests to the server have in Host: the port stands there unless it is the scheme's own.
  func authority(named name: String, withPort: Bool = true) -> String {
    let written = name.contains(":") ? "[\(name)]" : name
    return (withPort ? port : nil).map { "\(written):\($0)" } ?? written
  }
  /// The port, unless it is the scheme's own or there is none.
  private let port: Int?

  /// An upstream of HTTP, as a URL.
  init(_ text: String) throws(ProxyOptionFault) {
    let lower = text.lowercased()
    let isTLS = lower.hasPrefix("https://")
    guard isTLS || lower.hasPrefix("http://") else {
      throw ProxyOptionFault(
        "it must begin with https:// or http://",
        hint: "such as https://10.0.0.5:8443; --tcp passes connections of any protocol to HOST:PORT")
    }
    var rest = text.dropFirst(isTLS ? 8 : 7)
    if !rest.lowercased().hasPrefix("unix:") {
      if rest.last == "/" { rest = rest.dropLast() }
      guard !Self.hasMore(rest) else {
        throw ProxyOptionFault(
          "it must have a host and a port only", hint: "requests keep their paths; a configuration file can change them"
        )
      }
    }
    try self.init(
      authority: rest, isTLS: isTLS, defaultPort: isTLS ? 443 : 80,
      forms: "https://HOST[:PORT], http://HOST[:PORT] or http://unix:/PATH")
  }

  /// An upstream of connections (`--tcp`): `HOST:PORT`, or with `tls://` in front.
  init(ofTCP text: String) throws(ProxyOptionFault) {
    let lower = text.lowercased()
    let isTLS = lower.hasPrefix("tls://")
    let rest = text.dropFirst(isTLS ? 6 : 0)
    if lower.hasPrefix("http://") || lower.hasPrefix("https://") {
      throw ProxyOptionFault(
        "with --tcp it must be HOST:PORT or tls://HOST:PORT", hint: "without --tcp, requests of HTTP pass to a URL")
    }
    guard lower.dropFirst(isTLS ? 6 : 0).hasPrefix("unix:") || !Self.hasMore(rest) else {
      throw ProxyOptionFault("it must have a host and a port only", hint: Self.formsOfTCP)
    }
    try self.init(authority: rest, isTLS: isTLS, defaultPort: nil, forms: Self.formsOfTCP)
  }

  private static let formsOfTCP = "HOST:PORT, tls://HOST:PORT or unix:/PATH"

  private static func hasMore(_ authority: Substring) -> Bool { authority.contains { "/?#@".contains($0) } }

  /// `defaultPort`: nil if a port must be given.
  private init(
    authority: Substring, isTLS: Bool, defaultPort: Int?, forms: String
  ) throws(ProxyOptionFault) {
    do throws(Authority.ParseError) {
      switch try Authority(parsing: String(authority)) {
      case .unix(let path):
        server = "unix:\(path)"
        self.port = nil
        host = "localhost"
      case .host(let name, let port):
        guard let port = port.map({ Int($0) }) ?? defaultPort else {
          throw Authority.ParseError(reason: "it has no port", hint: nil)
        }
        host = name
        self.port = port == defaultPort ? nil : port
        server = "\(name.contains(":") ? "[\(name)]" : name):\(port)"
      }
    } catch {
      throw ProxyOptionFault(error.reason, hint: forms)
    }
    self.isTLS = isTLS
  }
}
