/// What a response asks of the connection that it goes out on: until the client has it, and then until the next response.
/// It is that of the response's location. A connection may keep it longer than the generation lives that made it.
///
/// Both versions of HTTP decide by it alone whether the connection takes another request.
package final class ResponsePolicy: Sendable {
  /// Milliseconds in which the client must take some of the waiting bytes (`send_timeout`).
  package let sendTimeout: Int
  /// Milliseconds that the connection waits for the next request; 0: it takes none.
  let keepaliveTimeout: Int
  /// Seconds announced in Keep-Alive; nil announces none.
  let keepaliveAnnounced: Int?
  private let keepaliveRequests: Int
  private let keepaliveTime: Int
  /// Whether late bytes of a request are read and thrown away before the connection closes, or before the request's stream
  /// of HTTP/2 is reset (`lingering_close`).
  let lingers: Bool
  /// Milliseconds for that, in all and between two reads.
  let lingeringTimeout: Int
  /// Whether a connection whose client is too slow ends by RST (`reset_timedout_connection`).
  let resetsTimedOut: Bool
  /// Whether a body of unknown length goes to HTTP/1.1 clients in chunks (`chunked_transfer_encoding`).
  let chunksBodies: Bool

  package init(_ limits: LocationLimits) {
    sendTimeout = limits.sendTimeout
    keepaliveTimeout = limits.keepaliveTimeout
    keepaliveAnnounced = limits.keepaliveAnnounced
    keepaliveRequests = limits.keepaliveRequests
    keepaliveTime = limits.keepaliveTime
    lingers = limits.lingeringClose
    lingeringTimeout = min(limits.lingeringTimeout, limits.lingeringTime)
    resetsTimedOut = limits.resetsTimedOut
    chunksBodies = limits.chunkedResponses
  }

  /// nginx's defaults, for a connection that has sent no response.
  package static let initial = ResponsePolicy(LocationLimits())

  /// Whether a connection that has had so many requests, and is so many milliseconds old, takes no more of them
  /// (`keepalive_requests`, `keepalive_time`).
  func isUsedUp(requests: Int, age: UInt64) -> Bool {
    requests >= keepaliveRequests || age >= UInt64(max(0, keepaliveTime))
  }
}
