package import Transport

/// HTTP on a client's connection, from the end of the handshake on. `HTTP1Connection` has one stream, `HTTP2Connection`
/// has many.
package class ClientConnection: StreamOwner {
  /// Whether the client speaks HTTP/2.
  package var isHTTP2: Bool { false }
  /// Whether no exchange is in progress, so that the session may move to another generation.
  var isIdle: Bool { true }
  /// Whether no exchange is in progress and no byte of a request has arrived.
  var hasNoRequest: Bool { true }
  /// What is in progress.
  package var transactions: [Transaction] { [] }
  /// The time since which the connection waits for a request.
  var idleSince: UInt64 { 0 }
  /// Ends the connection, on which no exchange is in progress.
  package func end() {}
  /// Another generation serves now, and an exchange is in progress: the connection takes no further request, and ends with
  /// the exchange.
  package func retire() {}
  /// The worker drains: the connection ends soon after nothing is in progress.
  package func drain() { if hasNoRequest { end() } }
  /// Ends the connection at once, even during an exchange.
  package func cut() {}
}
