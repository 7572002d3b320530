import Bytes
import Negotiation
import Review
import TLS

/// The server and path to probe.
struct ProbeTarget {
  let speech: ProbeSpeech
  let host: String
  let port: UInt16
  let path: String
  /// The value of the Host field.
  let authority: String

  /// Describes a server of an upstream group. `host`: the name that its certificate must be valid for.
  init(host: String, authority: String, path: String, speech: ProbeSpeech) {
    self.host = host
    self.port = 443
    self.authority = authority
    self.path = speech.isHTTP ? path : ""
    self.speech = speech
  }

  /// `HOST:PORT`, which a proxy on the way gets.
  var server: String { "\(host.contains(":") ? "[\(host)]" : host):\(port)" }

  var url: String { "\(speech.scheme)://\(authority)\(path)" }

  /// Parses HOST:PORT, with the port of the protocol if there is none. Returns nil for anything else.
  init?(_ text: String, negotiating kind: NegotiatedProtocol) {
    guard !text.contains("/") else { return nil }
    self.init(authority: Substring(text), path: "", .negotiated(kind), defaultPort: kind.port)
  }

  /// Returns nil for anything but an https URL, HOST:PORT or tls://HOST:PORT, where nothing is known of the protocol.
  init?(_ text: String) {
    var rest = Substring(text)
    if let scheme = text.range(of: "://") {
      rest = text[scheme.upperBound...]
      switch text[..<scheme.lowerBound].lowercased() {
      case "https": break
      case "tls":
        self.init(authority: rest.last == "/" ? rest.dropLast() : rest, path: "", .nothing, defaultPort: nil)
        return
      default: return nil
      }
    }
    let end = rest.firstIndex { $0 == "/" || $0 == "?" } ?? rest.endIndex
    let authority = rest[..<end]
    let tail = rest[end...]
    let path = tail.isEmpty ? "/" : tail.hasPrefix("?") ? "/\(tail)" : String(tail)
    self.init(authority: authority, path: path, .http1, defaultPort: 443)
  }

  /// `defaultPort`: nil if there must be one. It isn't shown.
  private init?(authority: Substring, path: String, _ speech: ProbeSpeech, defaultPort: UInt16?) {
    guard path.utf8.allSatisfy({ $0 > 0x20 && $0 != 0x7F && $0 != 0x23 }), !authority.contains("@") else { return nil }
    guard let server = try? HostPort(authority), let port = server.port ?? defaultPort else { return nil }
    host = server.host
    self.port = port
    self.path = path
    self.speech = speech
    let shown = host.contains(":") ? "[\(host)]" : host
    self.authority = port == defaultPort && speech.isHTTP ? shown : "\(shown):\(port)"
    if !host.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) { return nil }
  }
}

extension String {
  fileprivate func range(of text: String) -> Range<Index>? { firstRange(of: text) }
}
