import Observability
import Transport

/// `client_body_min_rate`: whether a client sends a collected body fast enough.
///
/// A client that sends one byte a minute meets `client_body_timeout` each time, and would keep its connection, and memory,
/// for as long as it likes (Slowloris, with bodies). Only bodies that are collected count: of a streamed one, a call that goes
/// on for hours with a message now and then is a proper use.
struct BodyPace {
  /// Bytes a second; 0: any.
  let rate: Int
  /// Milliseconds after sallyport began to read the body in which nothing is expected.
  let grace: Int

  /// `elapsed`: milliseconds since sallyport began to read the body. `received`: bytes of the body.
  func isKept(received: UInt64, elapsed: UInt64) -> Bool {
    guard rate > 0, elapsed > UInt64(max(0, grace)) else { return true }
    let seconds = (elapsed - UInt64(max(0, grace))) / 1000
    let (expected, overflow) = seconds.multipliedReportingOverflow(by: UInt64(rate))
    return !overflow && received >= expected
  }

  /// Judges a client that has sent something, perhaps nothing of the body itself. Returns false after it has responded to
  /// a client that is too slow.
  static func isKept(by exchange: Exchange) -> Bool {
    guard case .collecting(let kept) = exchange.body.state else { return true }
    return isKept(by: exchange, in: kept)
  }

  /// Returns false after it has responded to a client that is too slow.
  static func isKept(by exchange: Exchange, in kept: RequestBody) -> Bool {
    let limits = exchange.location.limits, now = exchange.worker.loop.now
    let pace = BodyPace(rate: limits.bodyMinRate, grace: limits.bodyTimeout)
    if pace.isKept(received: exchange.body.received, elapsed: now &- min(now, kept.begunAt)) { return true }
    let writes = exchange.worker.note(.bodyTooSlow, of: exchange.clientAddress)
    exchange.log(
      writes ? .info : .debug, "client sent its body at less than \(pace.rate) bytes a second (client_body_min_rate)")
    exchange.failDuringBody(.timedOut)
    return false
  }
}
