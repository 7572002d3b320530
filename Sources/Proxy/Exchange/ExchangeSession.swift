/// An exchange that is the whole session of a client in `stream`: no request, no response, but the rules, the variables,
/// the content and the line of the access log that a request has too.
extension Exchange {
  /// The session begins. The server block is that of the listener, until a name selects another.
  func beginSession(_ stream: TCPStream, _ server: LiveServer) {
    start(stream)
    assume(server)
    if let search = server.clientSearch { search.apply(to: self) }
  }

  /// Whether the session's content is an upstream.
  var goesToUpstream: Bool { location.content is LiveProxyPass }

  /// Ends the session with this status, which nginx documents for `$status`.
  func endSession(_ status: Int, _ reason: EndReason) {
    setStatus(status)
    end(reason)
  }
}
