import TLS

/// One attempt, for variables and the access record. Times are in milliseconds. It holds no reference, so making and
/// dropping one is cheap.
struct AttemptRecord {
  /// nil: no server of the group could be tried.
  var server: Int?
  var beganAt: UInt64
  var openedAt: UInt64?
  var headAt: UInt64?
  var endedAt: UInt64?
  var status: Int?
  var bytesReceived: UInt64 = 0
  var bytesSent: UInt64 = 0
  var bodyBytes: UInt64 = 0
  var trust = TrustOutcome.none
  /// Whether the metrics have counted a response, or in `stream` the open connection.
  var isCounted = false
}
