/// Tracks which OCSP responders let requests time out, by address.
///
/// A request to a silent responder occupies one of its lanes until the time-out, and delays the clients queued behind
/// it. So for a few seconds after a time-out, one request at a time goes out as a probe, and all others fail at once.
/// Only time-outs count: a fault that comes at once delays nobody, and the next request may succeed.
///
/// This is a value without a clock of its own: `now` is in microseconds of a monotonic clock. It decides which requests
/// may go out and never lets a client in: a request that may not go out has no answer, and without an answer the client
/// is refused.
struct ResponderSilence: Sendable {
  /// How a request may go out.
  enum Admission: Sendable, Hashable {
    /// Like any other request.
    case open
    /// As the probe that finds out whether the responder answers again.
    case probe
    /// Not now.
    case refused
  }

  /// How a request ended.
  enum Ending: Sendable, Hashable {
    case timedOut
    /// The responder answered, or the request failed for another reason than time.
    case heard
  }

  private struct Silence: Sendable {
    /// The time from which all requests may go out again.
    var end: Int64
    var isProbed: Bool
  }

  private var silences: [String: Silence] = [:]

  /// How many microseconds a time-out counts.
  static let length: Int64 = 5_000_000

  /// After each `open` and `probe`, the caller calls `ended` once.
  mutating func admit(_ address: String, at now: Int64) -> Admission {
    guard let silence = silences[address] else { return .open }
    if silence.isProbed { return .refused }
    guard silence.end > now else {
      silences[address] = nil
      return .open
    }
    silences[address]?.isProbed = true
    return .probe
  }

  mutating func ended(_ address: String, _ admission: Admission, _ ending: Ending, at now: Int64) {
    switch (ending, admission) {
    case (_, .refused): break
    case (.heard, _): silences[address] = nil
    case (.timedOut, .open), (.timedOut, .probe):
      silences = silences.filter { $0.value.isProbed || $0.value.end > now }
      let isProbed = admission == .open && silences[address]?.isProbed ?? false
      silences[address] = Silence(end: now &+ Self.length, isProbed: isProbed)
    }
  }
}
