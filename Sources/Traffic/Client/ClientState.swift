/// What an open connection of a client does, for `sallyport_client_connections`. Each connection is in one state, so
/// the sum of the states is the number of open connections.
package enum ClientState: Int, CaseIterable {
  /// The TLS handshake or the PROXY header is under way or waits for its turn, or the client's first bytes are awaited
  /// where they tell the protocol.
  case handshake
  /// The next request is awaited.
  case idle
  /// A request is being read or answered. A connection of HTTP/2 is active while one of its streams has a request.
  case active
  /// Bytes pass both ways after an upstream's 101. A connection of HTTP/2 whose streams in progress are all tunnels.
  case tunnel
  /// A session of `stream`.
  case stream
  /// The connection takes no more requests: its last bytes go out, and late ones of the client are thrown away.
  case draining

  package var label: String {
    switch self {
    case .handshake: "handshake"
    case .idle: "idle"
    case .active: "active"
    case .tunnel: "tunnel"
    case .stream: "stream"
    case .draining: "draining"
    }
  }
}
