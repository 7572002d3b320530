/// The HTTP version of a connection. A higher minor version of HTTP/1 counts as 1.1 (RFC 9110 §2.5).
public enum HTTPVersion: UInt8, Sendable {
  case http10, http11
}
