/// Which of many equal lines the error log is to show: the first of each text at once, then one at most every 30 seconds,
/// which says how many were left out.
///
/// Why: what is broken fails with every request, and a log that is full of one line hides the others. A text that was not
/// there before is never left out for another's sake, as long as there are few; what a peer varies at will shares a place.
/// Metrics and access logs count everything. Pure: the caller brings the time (milliseconds of one monotonic clock).
public struct RepeatedLines: Sendable {
  public enum Choice: Sendable, Equatable {
    /// `withheld`: how many like it were left out since the last.
    case write(withheld: UInt64)
    case withhold
  }

  /// Milliseconds between two lines of one text.
  public static let pause: UInt64 = 30_000
  /// Texts that are told apart; those beyond share one place.
  static let places = 8

  private struct Place: Sendable {
    /// nil: of whatever found no place of its own.
    var text: String?
    var writtenAt: UInt64
    var withheld: UInt64
  }

  private var known: [Place] = []

  public init() {}

  public var isEmpty: Bool { known.isEmpty }
  /// Since `forget`.
  public private(set) var count: UInt64 = 0
  public private(set) var withheld: UInt64 = 0

  public mutating func choose(_ text: String, now: UInt64) -> Choice {
    count &+= 1
    guard let index = known.firstIndex(where: { $0.text == text }) ?? overflow else {
      let isLast = known.count == Self.places
      known.append(Place(text: isLast ? nil : text, writtenAt: now, withheld: 0))
      return .write(withheld: 0)
    }
    guard now &- known[index].writtenAt >= Self.pause else {
      known[index].withheld &+= 1
      withheld &+= 1
      return .withhold
    }
    let choice = Choice.write(withheld: known[index].withheld)
    known[index].writtenAt = now
    known[index].withheld = 0
    return choice
  }

  private var overflow: Int? { known.firstIndex { $0.text == nil } }

  /// What was wrong is over: the next failure is a first one.
  public mutating func forget() { self = RepeatedLines() }
}
