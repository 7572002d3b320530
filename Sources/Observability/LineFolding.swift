/// Decides which lines of one kind the log gets: the first ones at once, and the others as a number at the end of a
/// window of time.
///
/// The windows get longer while the events go on, so that a fault of an hour leaves few lines. A window without an event
/// ends the series, and the next event is written at once. This is a value without a clock: the caller passes the time
/// in milliseconds of one monotonic clock. Event loops read that clock at different moments, so a time may be a little
/// before the last one.
public struct LineFolding: Sendable {
  public struct Terms: Sendable {
    /// The lines that are written at once in the first window.
    var first: Int
    /// The same for each window that follows without a pause.
    var following: Int
    /// The lengths of the windows in milliseconds. The last one repeats.
    var windows: [UInt64]

    /// One line of each text, then summaries after 10 s, a minute, and every ten minutes.
    public static let faults = Terms(first: 1, following: 0, windows: [10_000, 60_000, 600_000])
    /// Events of many clients: a few lines as examples, then a summary for each window.
    public static let handshakes = Terms(first: 5, following: 0, windows: [10_000, 60_000])
    /// Refused clients: the lines say who was refused, so each window has some.
    public static let refusals = Terms(first: 20, following: 5, windows: [10_000, 60_000])
  }

  public enum Choice: Sendable, Equatable { case write, fold }

  public struct Summary: Sendable, Equatable {
    /// How many events were not written.
    public var folded: UInt64
    public var milliseconds: UInt64
  }

  private struct Window: Sendable {
    var beganAt: UInt64
    var number = 0
    var written = 0
    var folded: UInt64 = 0
  }

  private let terms: Terms
  private var window: Window?

  public init(_ terms: Terms) { self.terms = terms }

  /// Whether no series is in progress.
  public var isQuiet: Bool { window == nil }

  public mutating func choose(now: UInt64) -> Choice {
    var current = window ?? Window(beganAt: now)
    defer { window = current }
    guard current.written < (current.number == 0 ? terms.first : terms.following) else {
      current.folded &+= 1
      return .fold
    }
    current.written += 1
    return .write
  }

  /// Ends the window if its time has passed, or at the end of the process. Returns what it has to say; nil for nothing.
  public mutating func due(now: UInt64, isLast: Bool = false) -> Summary? {
    guard let current = window else { return nil }
    let age = Self.age(current.beganAt, now)
    guard isLast || age >= terms.windows[min(current.number, terms.windows.count - 1)] else { return nil }
    guard current.folded > 0 else {
      window = nil
      return nil
    }
    window = Window(beganAt: now, number: current.number + 1)
    return Summary(folded: current.folded, milliseconds: age)
  }

  /// The milliseconds between two readings; 0 if the second is the earlier one.
  static func age(_ then: UInt64, _ now: UInt64) -> UInt64 { now > then ? now - then : 0 }
}
