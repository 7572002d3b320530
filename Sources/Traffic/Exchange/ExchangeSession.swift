package import Observability

/// An exchange that is the whole session of a client in `stream`: no request, no response, but the rules, the variables,
/// the content and the line of the access log that a request has too.
extension Exchange {
  /// The session begins. The server block is that of the listener, until a name selects another.
  func beginSession(_ stream: TCPStream, _ server: LiveServer) {
    start(stream)
    assume(server)
    if let step = server.addressStep { step.run(self) }
  }

  /// Whether the exchange is a session, and not a request.
  package var isSession: Bool { withStream { $0.role } == .session }

  /// The bytes of a session; nil for a request.
  package var tcp: TCPStream? { withStream { $0.session.tcp?.stream } ?? nil }

  /// Ends the session. Each end of a session comes by here. `status`: nil: that of the result.
  package func endSession(_ result: SessionResult, status: Int? = nil) {
    stream?.sessionResult = result
    setStatus(status ?? result.status)
    end(result.reason)
  }

  /// The configuration of a reload refuses the client.
  func wasRevoked() {
    if isSession { return endSession(.revoked) }
    streamWasCut()
  }

  /// Writes a line that says itself whom it is about: nginx's lines about connections in `stream`.
  package func logAlone(_ level: LogLevel, _ message: @autoclosure () -> String) {
    guard location.errorLog.takes(level) else { return }
    location.errorLog.log(level, "*\(facts.number) \(message())")
  }
}
