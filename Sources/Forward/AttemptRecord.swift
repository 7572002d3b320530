package import TLS
import Traffic

/// One attempt, for variables and the access record. Times are in milliseconds. It holds no reference, so making and
/// dropping one is cheap.
package struct AttemptRecord {
  /// nil: no server of the group could be tried.
  package var server: Int?
  package var beganAt: UInt64
  var openedAt: UInt64?
  package var headAt: UInt64?
  package var endedAt: UInt64?
  package var status: Int?
  var bytesReceived: UInt64 = 0
  var bytesSent: UInt64 = 0
  var bodyBytes: UInt64 = 0
  package var trust = TrustOutcome.none
  /// Whether the metrics have counted a response, or in `stream` the open connection.
  package var isCounted = false

  /// All at once: an array's element is sought and checked for each change.
  @inline(__always)
  mutating func end(at now: UInt64, received: UInt64, sent: UInt64) {
    (endedAt, bytesReceived, bytesSent) = (now, received, sent)
  }
}
