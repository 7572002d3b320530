import Bytes
package import Observability
import Traffic
import Transport
package import Upstream

/// The address part of `proxy_pass` or of an upstream's `server`: a host, perhaps with a port, or a socket's path.
package enum Authority: Hashable {
  case host(String, port: UInt16?)
  case unix(path: String)

  package struct ParseError: Error {
    package var reason: String
    package var hint: Wording?

    package init(reason: String, hint: Wording?) {
      self.reason = reason
      self.hint = hint
    }
  }

  package init(parsing text: String) throws(ParseError) {
    if text.lowercased().hasPrefix("unix:") {
      let path = String(text.dropFirst("unix:".count))
      guard path.hasPrefix("/"), path.utf8.count <= SocketAddress.longestUnixPath else {
        throw ParseError(
          reason: "invalid socket path",
          hint: "unix: and an absolute path of at most \(SocketAddress.longestUnixPath) bytes")
      }
      self = .unix(path: path)
      return
    }
    for scheme in ["http://", "https://"] where text.lowercased().hasPrefix(scheme) {
      throw ParseError(reason: "invalid host", hint: "leave out \"\(scheme)\": proxy_pass names the protocol")
    }
    let parts: HostPort.Parts
    do throws(HostPort.ParseError) { parts = try HostPort.Parts(of: text[...]) } catch {
      throw error == .missingBracket
        ? ParseError(reason: "invalid host", hint: "the \"]\" is missing")
        : ParseError(reason: "invalid port", hint: "[ADDRESS]:PORT")
    }
    let host = String(parts.host)
    if parts.isBracketed {
      guard case .ipv6? = SocketAddress(literal: host, port: 0) else {
        throw ParseError(
          reason: "invalid IPv6 address",
          hint: host.contains("%") ? "[ADDRESS]:PORT, without a zone" : "[ADDRESS]:PORT")
      }
    } else {
      guard !host.isEmpty else { throw ParseError(reason: "no host", hint: "ADDRESS[:PORT]") }
      guard Self.isHost(host) else {
        throw ParseError(
          reason: "invalid host", hint: "letters, digits, \".\", \"-\" and \"_\"; an IPv6 address needs [ ]")
      }
    }
    guard let digits = parts.port else {
      self = .host(host, port: nil)
      return
    }
    guard let port = HostPort.port(digits) else {
      throw ParseError(reason: "invalid port", hint: "a port is a number from 1 to 65535")
    }
    self = .host(host, port: port)
  }

  package static func isHost(_ text: String) -> Bool {
    !text.isEmpty && text.utf8.count <= 255
      && text.utf8.allSatisfy {
        TemplateCompiler.isNameByte($0) || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: ".")
      }
  }

  package func upstreamAddress(defaultPort: UInt16) -> UpstreamAddress {
    switch self {
    case .unix(let path): return .address(.unix(path: path))
    case .host(let host, let port):
      let port = port ?? defaultPort
      return SocketAddress(literal: host, port: port).map { .address($0) } ?? .name(host, port: port)
    }
  }

  /// nginx's `$proxy_host`. It contains the port unless that is the scheme's default port.
  package func proxyHost(defaultPort: UInt16) -> String {
    switch self {
    case .unix: return "localhost"
    case .host(let host, let port):
      let shown = host.contains(":") ? "[\(host)]" : host
      guard let port, port != defaultPort else { return shown }
      return "\(shown):\(port)"
    }
  }

  /// nginx's `$proxy_port`.
  package func proxyPort(defaultPort: UInt16) -> String {
    switch self {
    case .unix: ""
    case .host(_, let port): String(port ?? defaultPort)
    }
  }

  /// The name for SNI and the name check: the host without its port, and an IPv6 address without brackets.
  package var nameForTLS: String {
    switch self {
    case .unix: "localhost"
    case .host(let host, _): host
    }
  }
}
