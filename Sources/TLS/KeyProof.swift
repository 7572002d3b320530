import Glibc

/// When a client last proved in a full handshake that it has the key of its certificate.
///
/// Each resumption gets a new ticket. A lifetime that began anew with it would never end, and who has stolen a session
/// could use it for as long as it likes (RFC 8446 §4.6.1).
struct KeyProof: Sendable, Equatable {
  /// Seconds since 1970, for a machine that shares the ticket key.
  let time: Int64
  /// Seconds of this machine's monotonic clock, which nobody sets; nil if the proof was read from a ticket.
  let tick: UInt64?

  /// A moment, by both clocks.
  struct Moment: Sendable {
    var time: Int64
    var tick: UInt64

    /// `milliseconds`: the event loop's time.
    init(loop milliseconds: UInt64) {
      time = Int64(Glibc.time(nil))
      tick = milliseconds / 1000
    }

    init(time: Int64, tick: UInt64) { (self.time, self.tick) = (time, tick) }
  }

  /// Seconds by which the clock of another machine may be ahead.
  private static let skew: Int64 = 60

  init(at moment: Moment) { (time, tick) = (moment.time, moment.tick) }

  /// The proof of a ticket.
  init(time: Int64) { (self.time, tick) = (time, nil) }

  /// Seconds for which a session may still be resumed, of `lifetime` seconds; 0 if it may not. A clock that was set
  /// shortens a session's life, and never makes it longer.
  func remaining(of lifetime: Int, at now: Moment) -> Int {
    let passed = now.time.subtractingReportingOverflow(time)
    guard !passed.overflow, passed.partialValue >= (tick == nil ? -Self.skew : .min) else { return 0 }
    var elapsed = UInt64(max(0, passed.partialValue))
    if let tick { elapsed = max(elapsed, now.tick >= tick ? now.tick - tick : .max) }
    let whole = UInt64(max(0, lifetime))
    return elapsed < whole ? Int(clamping: whole - elapsed) : 0
  }
}
