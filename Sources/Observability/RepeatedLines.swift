/// Decides which of many equal lines the error log shows: the first of each text at once, then at most one every 30
/// seconds, with the number of lines that were withheld.
///
/// A persistent fault fails every request, and a log full of one line hides the others. A new text is always written as
/// long as there are few texts. Texts that a peer varies at will share one place. Metrics and access logs count
/// everything. This is a value without a clock: the caller passes the time in milliseconds of one monotonic clock.
public struct RepeatedLines: Sendable {
  public enum Choice: Sendable, Equatable {
    /// `withheld`: how many equal lines were withheld since the last one.
    case write(withheld: UInt64)
    case withhold
  }

  /// Milliseconds between two lines of one text.
  public static let pause: UInt64 = 30_000
  /// The number of places. Each text has its own, except that the last place is for all further texts.
  static let places = 8

  private struct Place: Sendable {
    /// nil: the place of all further texts.
    var text: String?
    var writtenAt: UInt64
    var withheld: UInt64
  }

  private var known: [Place] = []

  public init() {}

  public var isEmpty: Bool { known.isEmpty }
  /// The number of lines since `forget`.
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

  /// Forgets all texts when the fault is over, so that the next failure is written at once.
  public mutating func forget() { self = RepeatedLines() }
}
