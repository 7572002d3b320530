import Proxy
/// One value of `--to`: the scheme and the authority of an upstream server.
struct ProxyTarget: Hashable {
  let isTLS: Bool
  /// `HOST:PORT`, or `unix:/PATH`.
  let server: String
  /// The host without its port.
  let host: String

  init(_ text: String) throws(ProxyOptionFault) {
    let lower = text.lowercased()
    let isTLS = lower.hasPrefix("https://")
    guard isTLS || lower.hasPrefix("http://") else {
      throw ProxyOptionFault("it must begin with https:// or http://", hint: "such as https://10.0.0.5:8443")
    }
    var rest = text.dropFirst(isTLS ? 8 : 7)
    if !rest.lowercased().hasPrefix("unix:") {
      if rest.last == "/" { rest = rest.dropLast() }
      guard !rest.contains(where: { "/?#@".contains($0) }) else {
        throw ProxyOptionFault(
          "it must have a host and a port only", hint: "requests keep their paths; a configuration file can change them"
        )
      }
    }
    do throws(Authority.ParseError) {
      switch try Authority(parsing: String(rest)) {
      case .unix(let path):
        server = "unix:\(path)"
        host = "localhost"
      case .host(let name, let port):
        host = name
        server = "\(name.contains(":") ? "[\(name)]" : name):\(port ?? (isTLS ? 443 : 80))"
      }
    } catch {
      throw ProxyOptionFault(error.reason, hint: "https://HOST[:PORT], http://HOST[:PORT] or http://unix:/PATH")
    }
    self.isTLS = isTLS
  }
}
