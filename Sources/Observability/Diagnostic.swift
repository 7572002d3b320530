/// A place in a configuration file. Lines and columns count from 1; columns count bytes.
public struct SourceLocation: Sendable, Hashable, CustomStringConvertible {
  public var file: String
  public var line: Int
  public var column: Int

  public init(file: String, line: Int, column: Int) {
    self.file = file
    self.line = line
    self.column = column
  }

  public var description: String { "\(file):\(line):\(column)" }

  /// The place of sallyport's own text, which is in no file.
  package static let nowhere = SourceLocation(file: "", line: 0, column: 0)
}

/// A message to the author of a configuration: the place, what is wrong, and what to do.
///
/// Errors stop a start and a reload; warnings never do.
public struct Diagnostic: Sendable, Hashable, CustomStringConvertible {
  public enum Severity: String, Sendable, Hashable { case error, warning, notice }

  public var severity: Severity
  public var location: SourceLocation?
  private var wording: Wording
  private var hintWording: Wording?
  /// The name of a directive that is taken and has no effect; nil for all other messages.
  public var idleDirective: String?
  /// What follows, at once, from what a warning tells of.
  public var consequence = Consequence.none

  /// What other messages have in common with this one; nil: only their words say whether they are of one cause.
  public var sharedCause: SharedCause?

  /// How a report tells many messages of one cause together.
  public struct SharedCause: Sendable, Hashable {
    /// Equal for the messages that are told together.
    public var name: String
    /// What one message is about, such as a directive's name; empty: its place says enough.
    public var subject: String
    /// What all of them are, after their number; nil: the first message is told.
    public var title: String?
    /// What to do about all of them.
    public var remedy: String?

    public init(_ name: String, subject: String = "", title: String? = nil, remedy: String? = nil) {
      self.name = name
      self.subject = subject
      self.title = title
      self.remedy = remedy
    }
  }

  /// The message without what a user wrote.
  package var skeleton: String { wording.skeleton }

  /// The kind of the message for a program: at most eight of its own words, without names, numbers and paths.
  package var code: String { wording.code }

  public enum Consequence: Sendable, Hashable {
    case none
    /// Clients are refused, or upstreams: the log has it at `crit`. It stops no start, which could mend nothing.
    case outage
    /// No client can get into a server block. `check` refuses the configuration; a start is as with `outage`.
    case lockout
  }

  package var isOutage: Bool { consequence != .none }

  public init(_ severity: Severity, at location: SourceLocation?, _ message: Wording, hint: Wording? = nil) {
    self.severity = severity
    self.location = location
    wording = message
    hintWording = hint
  }

  @_disfavoredOverload
  public init(_ severity: Severity, at location: SourceLocation?, _ message: String, hint: String? = nil) {
    self.init(severity, at: location, Wording(message), hint: hint.map { Wording($0) })
  }

  public var message: String {
    get { wording.text }
    set { wording = Wording(newValue) }
  }

  public var hint: String? {
    get { hintWording?.text }
    set { hintWording = newValue.map { Wording($0) } }
  }

  /// The same as one of what refuses clients or upstreams now.
  package var ofOutage: Diagnostic {
    var other = self
    other.consequence = .outage
    return other
  }

  /// The same as one of what keeps every client out of a server block.
  package var ofLockout: Diagnostic {
    var other = self
    other.consequence = .lockout
    return other
  }

  /// The same as one of a cause that others share.
  package func sharing(_ cause: SharedCause) -> Diagnostic {
    var other = self
    other.sharedCause = cause
    return other
  }

  /// The same for what an error stops otherwise, and not here.
  package var asWarning: Diagnostic {
    var other = self
    if severity == .error { other.severity = .warning }
    return other
  }

  /// Replaces a piece of our own words, and none of a user's: a name, a value or a path.
  package mutating func replace(_ piece: String, with other: String) {
    wording.replace(piece, with: other)
    hintWording?.replace(piece, with: other)
  }

  /// `file:line:column: severity: message`, with the hint on its own line.
  public var description: String {
    let place = location.map { "\($0): " } ?? ""
    return "\(place)\(severity.rawValue): \(message)" + (hint.map { "\n    hint: \($0)" } ?? "")
  }
}

extension String {
  /// The lines of a text as parts of one line, for a place that has only one: `error: …; hint: …`.
  package var onOneLine: String {
    guard contains(where: \.isNewline) else { return self }
    let blank: Set<Character> = [" ", "\t"]
    return split(whereSeparator: \.isNewline).map { $0.drop { blank.contains($0) } }.filter { !$0.isEmpty }
      .joined(separator: "; ")
  }
}

extension [Diagnostic] {
  /// One notice that names the directives without effect, each once; nil if there are none.
  package var ofIdleDirectives: Diagnostic? {
    var seen: Set<String> = []
    let names = compactMap(\.idleDirective).filter { seen.insert($0).inserted }
    guard !names.isEmpty else { return nil }
    let list = names.joined(separator: ", ")
    return Diagnostic(.notice, at: nil, "taken, and without effect: \(list); `sallyport check --verbose` says why")
  }

  /// The same with one notice for all directives without effect, at the end.
  package var folded: [Diagnostic] { filter { $0.idleDirective == nil } + [ofIdleDirectives].compactMap { $0 } }
}
