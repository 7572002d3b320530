/// Which OCSP responders let their time run out, by address.
///
/// Each question to such a responder would hold one of its lanes for as long as it waits, and the clients in line behind
/// it. So for a few seconds after a time-out one question at a time is let through, as a probe, and all others fail at
/// once. Only time-outs count: a fault that comes at once holds nobody up, and the next question may fare better.
///
/// A value without a clock of its own: `now` is in microseconds of a clock that never goes back. What it decides is who
/// may ask, never who is let in: a question that may not be asked has no answer, and without one nobody is let in.
struct ResponderSilence: Sendable {
  /// How a question may be asked.
  enum Admission: Sendable, Hashable {
    /// Like any other.
    case open
    /// As the one that finds out whether the responder answers again.
    case probe
    /// Not now.
    case refused
  }

  /// How a question that was asked came back.
  enum Ending: Sendable, Hashable {
    case timedOut
    /// With an answer, or with a fault of another kind.
    case heard
  }

  private struct Silence: Sendable {
    /// From then on everybody may ask again.
    var end: Int64
    var isProbed: Bool
  }

  private var silences: [String: Silence] = [:]

  /// Microseconds that a time-out counts.
  static let length: Int64 = 5_000_000

  /// Each `open` and `probe` is followed by one call of `ended`.
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
