public import Bytes
public import HTTP

/// What the Location of a program's response asks for (RFC 3875 §6.2).
public enum ProgramRedirect: Sendable, Equatable {
  case none
  /// A path of this server, without a status: the program wants the server to serve that path. nginx sends a redirect
  /// to the client all the same.
  case local(ByteRange)
  /// Any other Location: the client gets it.
  case client(ByteRange)

  public init(of head: ResponseHead) {
    guard let location = head.first(.location)?.value, !location.isEmpty else {
      self = .none
      return
    }
    let bytes = head.bytes.readable
    let hasStatus = head.present.contains(.status) || bytes.starts(with: "HTTP/".utf8)
    // `//host` is a URL of another server.
    let isPath = bytes[location].starts(with: "/".utf8) && !bytes[location].starts(with: "//".utf8)
    self = isPath && !hasStatus ? .local(location) : .client(location)
  }
}
