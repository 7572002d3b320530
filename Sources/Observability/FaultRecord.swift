/// What the error log gets of the faults of one subject, such as one upstream server: the first line of each text, then
/// summaries, and when the subject goes down and comes up again.
///
/// A value without a clock, as `LineFolding`. Bounds: eight texts of their own; a peer can vary a text at will, so all
/// further ones share one place.
struct FaultRecord: Sendable {
  struct Note: Sendable, Equatable {
    var choice: LineFolding.Choice
    /// The subject is down from now on, after so many failures in a row.
    var wentDownAfter: Int?
  }

  enum Recovery: Sendable, Equatable {
    /// The subject was not down.
    case none
    /// A failure is too recent: a subject can fail and succeed by turns.
    case undecided
    case up(failures: UInt64, milliseconds: UInt64)
  }

  struct Summary: Sendable, Equatable {
    /// nil: of several texts.
    var text: String?
    var folded: UInt64
    var milliseconds: UInt64
  }

  private struct Line: Sendable {
    var text: String?
    var folding = LineFolding(.faults)
  }

  static let texts = 8
  static let failuresInARow = 3
  /// A subject counts as recovered after so many milliseconds without a failure.
  static let calm: UInt64 = 1000
  /// After so many milliseconds without a fault, nobody knows whether the subject is still down. It may be gone from the
  /// configuration.
  static let memory: UInt64 = 600_000

  private var lines: [Line] = []
  private var inARow = 0
  private(set) var isDown = false
  /// Of the failures in a row, which `isDown` continues: their number and the time of the first.
  private var failures: UInt64 = 0
  private var beganAt: UInt64 = 0
  private(set) var notedAt: UInt64 = 0

  /// Whether nothing would be lost by forgetting the record.
  var isQuiet: Bool { lines.isEmpty && !isDown }

  mutating func note(_ text: String, _ weight: FaultLog.Weight, now: UInt64) -> Note {
    notedAt = now
    let index = place(of: text)
    return Note(choice: lines[index].folding.choose(now: now), wentDownAfter: count(weight, now: now))
  }

  private mutating func place(of text: String) -> Int {
    if let index = lines.firstIndex(where: { $0.text == text }) { return index }
    if lines.count > Self.texts { return lines.count - 1 }
    lines.append(Line(text: lines.count == Self.texts ? nil : text))
    return lines.count - 1
  }

  private mutating func count(_ weight: FaultLog.Weight, now: UInt64) -> Int? {
    if weight == .none { return nil }
    if inARow == 0, !isDown { (failures, beganAt) = (0, now) }
    failures &+= 1
    inARow = min(inARow + 1, Self.failuresInARow)
    guard !isDown, weight == .unreachable || inARow == Self.failuresInARow else { return nil }
    isDown = true
    return inARow
  }

  /// Notes a success.
  mutating func succeeded(now: UInt64) -> Recovery {
    guard isDown else {
      inARow = 0
      return .none
    }
    guard LineFolding.age(notedAt, now) >= Self.calm else { return .undecided }
    let recovery = Recovery.up(failures: failures, milliseconds: LineFolding.age(beganAt, now))
    self = FaultRecord()
    return recovery
  }

  /// The summaries of windows that have ended.
  mutating func due(now: UInt64, isLast: Bool = false) -> [Summary] {
    var summaries: [Summary] = []
    for index in lines.indices {
      guard let summary = lines[index].folding.due(now: now, isLast: isLast) else { continue }
      summaries.append(
        Summary(text: lines[index].text, folded: summary.folded, milliseconds: summary.milliseconds))
    }
    lines.removeAll { $0.folding.isQuiet }
    if isDown, lines.isEmpty, LineFolding.age(notedAt, now) >= Self.memory { self = FaultRecord() }
    return summaries
  }
}
