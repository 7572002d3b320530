import Bytes
package import Crypto

/// Checks the lines of one audit log, in the order of its files. A value without a file: whoever reads gives it the lines.
package struct AuditVerification: Sendable {
  /// A place, and what is wrong there.
  package struct Finding: Sendable, Equatable, CustomStringConvertible {
    package let file: String
    /// In the file, from 1; 0: the file as a whole.
    package let line: Int
    package let words: String
    package var place: String { line > 0 ? "\(file):\(line)" : file }
    package var description: String { "\(place): \(words)" }
  }

  private struct Place { var file = "", line = 0 }

  private struct Writer {
    let begin: Place
    var last: AuditLine
  }

  private let keys: [String: SignatureKey]
  private var place = Place()
  private var last: AuditLine?
  private var lastPlace = Place()
  /// A line that is none, until the next one says what has happened.
  private var torn: (place: Place, reason: String)?
  /// By process: those that have written no `stop` yet.
  private var writers: [String: Writer] = [:]
  private var signed: Int64 = 0
  /// What proves that the log was changed. No more than `most` are kept.
  package private(set) var problems: [Finding] = []
  /// What the log doesn't tell, although nothing proves a change.
  package private(set) var gaps: [Finding] = []
  package private(set) var lines = 0
  package private(set) var signatures = 0
  /// The numbers of the first and the last line.
  package private(set) var first: Int64?
  package var end: (number: Int64, hash: [UInt8])? { last.map { ($0.number, $0.hash) } }
  /// How many lines at the end no signature covers.
  package var unsigned: Int64 { max(0, (last?.number ?? 0) - max(signed, (first ?? 1) - 1)) }

  static let most = 1000

  /// `keys`: by which signatures are checked; none: they aren't.
  package init(keys: [SignatureKey] = []) {
    self.keys = Dictionary(keys.map { (AuditChain.name(of: $0), $0) }) { first, _ in first }
  }

  private mutating func report(_ words: String, at place: Place) {
    if problems.count < Self.most { problems.append(Finding(file: place.file, line: place.line, words: words)) }
  }

  private mutating func tell(_ words: String, at place: Place) {
    if gaps.count < Self.most { gaps.append(Finding(file: place.file, line: place.line, words: words)) }
  }

  /// The lines of another file follow.
  package mutating func begin(file: String) { place = Place(file: file, line: 0) }

  /// Takes a line without its line feed. `isEnded`: it has one.
  package mutating func take(_ bytes: [UInt8], isEnded: Bool = true) {
    place.line += 1
    lines += 1
    let line: AuditLine
    do throws(AuditFault) { line = try AuditLine(bytes) } catch {
      settleTorn(before: nil)
      torn = (place, error.reason)
      return
    }
    settleTorn(before: line)
    if !isEnded { tell("the last line has no end: its file was cut, or is still being written", at: place) }
    judge(line)
    judgeSignature(line)
    follow(line)
    (last, lastPlace) = (line, place)
  }

  /// Says what a line was that is none: cut by the end of its process if the next line says so, else changed.
  private mutating func settleTorn(before line: AuditLine?) {
    guard let torn else { return }
    self.torn = nil
    if let line, line.kind == .recovered, line.prev == last?.hash ?? AuditChain.origin {
      tell("the line is cut, because its process ended while it wrote it; the next line says so", at: torn.place)
    } else {
      report("the line was changed or inserted: \(torn.reason)", at: torn.place)
    }
  }

  /// Compares a line with the one before.
  private mutating func judge(_ line: AuditLine) {
    guard let last else {
      first = line.number
      if line.number == 1, line.prev != AuditChain.origin {
        report("the first line of the log names a line before it", at: place)
      } else if line.number > 1 {
        tell(
          "the log begins with line \(line.number), after a line with the SHA-256 \(Hex.encode(line.prev)): its former files aren't given",
          at: place)
      }
      return
    }
    let next = last.number &+ 1
    if place.line == 1, line.number == 1, line.prev == AuditChain.origin {
      return tell(
        "another chain begins: the file before was moved away while nobody wrote it, or its end is gone", at: place)
    }
    if line.number > next {
      report(
        line.number == next &+ 1
          ? "line \(next) of the log is missing: it was removed, or stands elsewhere"
          : "lines \(next) to \(line.number &- 1) of the log are missing: they were removed, or stand elsewhere",
        at: place)
    } else if line.number < next {
      report("line \(line.number) of the log stands behind line \(last.number): it was inserted or moved", at: place)
    } else if line.prev != last.hash {
      report("the line was changed: the next one has the SHA-256 of another text", at: lastPlace)
    }
  }

  private mutating func judgeSignature(_ line: AuditLine) {
    guard line.kind == .signature else { return }
    guard !keys.isEmpty else {
      signatures += 1
      return signed = line.number
    }
    guard let key = line.key.flatMap({ keys[$0] }) else {
      return report("the signature is of another key (\(line.key ?? "none"))", at: place)
    }
    guard let signature = line.signature,
      key.verify(signature, AuditChain.signed(number: line.number, prev: line.prev))
    else { return report("the signature is not that of its key: lines before it were changed", at: place) }
    signatures += 1
    signed = line.number
  }

  private mutating func follow(_ line: AuditLine) {
    switch line.kind {
    case .stop:
      writers[line.process] = nil
      return
    // Behind the last line of a process comes its signature.
    case .signature where writers[line.process] == nil: return
    case .lost:
      tell("\(line.count) events before this line were not written: there was no room for them", at: place)
    default: break
    }
    // A process whose begin stands in a former file is known by its first line here.
    let begin = writers[line.process]?.begin ?? place
    if writers.count < Self.most || writers[line.process] != nil {
      writers[line.process] = Writer(begin: begin, last: line)
    }
  }

  /// Ends the check. `expected`: the SHA-256 that the last line must have; nil: any.
  package mutating func finish(expecting expected: [UInt8]? = nil) {
    if let torn {
      self.torn = nil
      tell("the line is cut: its process ended while it wrote it, or still writes it", at: torn.place)
    }
    for (process, writer) in writers.sorted(by: { $0.value.last.number < $1.value.last.number }) {
      tell(
        "process \(process) has written no line that it stopped; its last one is line \(writer.last.number), at \(writer.last.time): it still runs, or it ended at once, and what it had not written yet is missing",
        at: writer.begin)
    }
    if !keys.isEmpty, signatures == 0, last != nil {
      report("no line is signed by a given key", at: Place(file: place.file))
    }
    guard let expected else { return }
    if last?.hash != expected {
      report(
        "the log ends with line \(last?.number ?? 0), whose SHA-256 is \(Hex.encode(last?.hash ?? AuditChain.origin)), not the expected one: its end was cut or changed, or lines were added",
        at: lastPlace)
    }
  }
}
