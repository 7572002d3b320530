import TLS

/// One try at one server of the exchange's group, for variables and the access record. Milliseconds. It holds no
/// reference: a request makes one and forgets it.
struct AttemptRecord {
  var server: Int
  var beganAt: UInt64
  var openedAt: UInt64?
  var headAt: UInt64?
  var endedAt: UInt64?
  var status: Int?
  var bytesReceived: UInt64 = 0
  var bytesSent: UInt64 = 0
  var bodyBytes: UInt64 = 0
  var trust = TrustOutcome.none
}
