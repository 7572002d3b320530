/// The version of HTTP that a test's client speaks to the daemon under test.
package enum Speech: String, Sendable, CaseIterable {
  case http1 = "HTTP/1.1"
  case http2 = "HTTP/2.0"

  /// What curl must be told. Over TLS it offers the protocol by ALPN; without TLS it begins with the preface.
  func curl(isTLS: Bool) -> [String] {
    switch self {
    case .http1: []
    case .http2: [isTLS ? "--http2" : "--http2-prior-knowledge"]
    }
  }

  /// A configuration that lets clients speak this; one that does so already stays as it is. Lines keep their numbers.
  func enabled(in configuration: String) -> String {
    switch self {
    case .http1: configuration
    case .http2: configuration.replacing(/(?m)^http \{(?! http2 on;)/) { _ in "http { http2 on;" }
    }
  }
}

/// What a request and its answer look like differs between the protocols in these ways, all of which RFC 9113 wants:
/// names of fields are in lower case (§8.2.1), a status has no reason phrase (§8.3.2), the fields `Connection`,
/// `Keep-Alive` and `Transfer-Encoding` don't exist (§8.2.2), and a body that breaks off ends its stream by RST_STREAM
/// instead of the connection (§8.1.1).
extension Scene {
  /// A field as the upstream receives it that the client has sent under this name.
  package func sent(_ field: String) -> String {
    guard speech == .http2, let colon = field.firstIndex(of: ":") else { return field }
    return field[..<colon].lowercased() + field[colon...]
  }
}

extension CurlResult {
  /// Whether the answer broke off, and curl knows it: 18 is a partial file, 56 a failure to receive, 92 a stream of
  /// HTTP/2 that was reset.
  package var isBrokenOff: Bool { (speech == .http2 ? [92] : [18, 56]).contains(exit) }

  /// Whether no answer came at all and the peer ended the connection or the stream: 52 is an empty reply.
  package var isUnanswered: Bool { exit == (speech == .http2 ? 92 : 52) }
}
