/// The HTTP version of a message. A higher minor version of HTTP/1 counts as 1.1 (RFC 9110 §2.5).
public enum HTTPVersion: UInt8, Sendable {
  case http10, http11, http2

  /// The version as `$server_protocol` and the request line of a log have it.
  public var text: StaticString {
    switch self {
    case .http10: "HTTP/1.0"
    case .http11: "HTTP/1.1"
    case .http2: "HTTP/2.0"
    }
  }
}

/// The versions of HTTP/1 in which sallyport writes requests.
public enum HTTP1Version: UInt8, Sendable {
  case http10, http11
}
