package import Observability

/// The form of a directive's arguments. The checker applies the form first, so the builder sees only valid words.
package enum ArgumentForm: Sendable, Hashable {
  case none
  case flag
  case number(ClosedRange<Int>)
  case size
  /// A time in which milliseconds are allowed (`500ms`).
  case milliseconds
  /// A time in whole seconds only.
  case seconds
  case oneOf([String])
  /// One or more of these words.
  case someOf([String])
  /// A number of buffers and the size of each.
  case buffers
  /// The name of an environment variable, without a value.
  case environmentName
  /// Free words; the builder checks them.
  case words(ClosedRange<Int>, String)
  /// A block, and the words before its brace.
  case block(ClosedRange<Int>, String)
  /// The same, where the block has lines of its own form and no directives.
  case table(ClosedRange<Int>, String)

  /// Any arguments, even a block: for a directive that has no effect.
  package static let anything = words(0...Int.max, "…")

  package var opensBlock: Bool { if case .block = self { true } else { isTable } }
  package var isTable: Bool { if case .table = self { true } else { false } }

  /// The form as the manual writes it.
  package var usage: String {
    switch self {
    case .none: ""
    case .flag: "on | off"
    case .number: "NUMBER"
    case .size: "SIZE"
    case .milliseconds, .seconds: "TIME"
    case .oneOf(let words): words.joined(separator: " | ")
    case .someOf(let words): words.joined(separator: " | ") + " …"
    case .buffers: "NUMBER SIZE"
    case .environmentName: "NAME"
    case .words(_, let usage): usage
    case .block(_, let usage), .table(_, let usage): usage.isEmpty ? "{ … }" : "\(usage) { … }"
    }
  }

  package var argumentCount: ClosedRange<Int> {
    switch self {
    case .none: 0...0
    case .flag, .number, .size, .milliseconds, .seconds, .oneOf, .environmentName: 1...1
    case .someOf: 1...Int.max
    case .buffers: 2...2
    case .words(let count, _), .block(let count, _), .table(let count, _): count
    }
  }
}

/// How a value passes to inner levels.
package enum Inheritance: String, Sendable, Hashable {
  /// The value applies to its own level only.
  case none
  /// An inner level without the directive takes the outer value.
  case value
  /// An inner level takes all outer lines, or none of them if it has a line of its own.
  case list
}

/// Whether sallyport implements the directive.
package enum DirectiveStatus: Sendable, Hashable {
  case supported
  /// Accepted without an error and listed by `check`. The text says why the directive has no effect.
  case withoutEffect(String)
  /// Planned, not implemented. The text says what to do meanwhile.
  case planned(String)
  /// A directive of nginx that sallyport does not have. The text says what to do instead.
  case foreign(String)
}

/// What a change of the directive means for who gets in and where a request goes, for `check --diff`.
package enum TrustEffect: Sendable, Hashable {
  /// It changes neither.
  case none
  /// The comparisons tell its effect in words.
  case told
  /// It may change either, and no comparison looks at it: the report says that it differs.
  case untold
}

/// One row of the directive table: all that the manual, the checks, `check --diff` and the completions know of a directive.
package struct DirectiveEntry: Sendable, Hashable {
  package var name: String
  package var contexts: DirectiveContexts
  package var form: ArgumentForm
  package var isRepeatable = false
  package var inheritance = Inheritance.none
  /// nginx's default as the manual writes it; empty when there is no default.
  package var initial = ""
  /// What the directive does, as the manual writes it. A renamed row has the text of the row that it was made from, with
  /// the names changed when somebody asks for it: only the manual and the page do.
  package var help: String { prefixes?.renamed(text) ?? text }
  package var status = DirectiveStatus.supported
  /// A line that sallyport accepts, for the manual; empty for a directive without effect. Renamed as `help` is.
  package var example: String { prefixes?.renamed(line) ?? line }
  package var trust = TrustEffect.untold
  /// What a line of a directive without effect is told with; nil for a line that is told like all others, by the reason of
  /// `status` in a notice.
  @NotCompared package private(set) var remark: @Sendable (Directive) -> Diagnostic? = { _ in nil }
  /// The option of `sallyport proxy` that says the same; nil: none does.
  package private(set) var option: String?
  private var text = ""
  private var line = ""
  /// Of a renamed row: what names began with, and what they begin with. nil for other rows.
  private var prefixes: Prefixes?

  private struct Prefixes: Hashable {
    let former: String
    let own: String
    func renamed(_ text: String) -> String { text.replacing(former, with: own) }
  }

  package init(
    name: String, contexts: DirectiveContexts, form: ArgumentForm, isRepeatable: Bool = false,
    inheritance: Inheritance = .none, initial: String = "", help: String = "", example: String = "",
    trust: TrustEffect = .untold, status: DirectiveStatus = .supported
  ) {
    self.name = name
    self.contexts = contexts
    self.form = form
    self.isRepeatable = isRepeatable
    self.inheritance = inheritance
    self.initial = initial
    self.status = status
    self.trust = trust
    text = help
    line = example
  }

  /// The same row for a directive whose name begins with `own` in place of `former`. Its words say the new names.
  package func renamed(_ former: String, _ own: String) -> DirectiveEntry {
    var entry = self
    entry.name = own + name.dropFirst(former.count)
    entry.prefixes = Prefixes(former: former, own: own)
    entry.option = nil
    return entry
  }

  /// The row, with the option of `sallyport proxy` that says the same.
  package func option(_ name: String) -> DirectiveEntry {
    var entry = self
    entry.option = name
    return entry
  }

  /// The row, for the same directive of `stream` too.
  package func alsoIn(_ more: DirectiveContexts) -> DirectiveEntry {
    var entry = self
    entry.contexts.formUnion(more)
    return entry
  }

  /// Creates a directive that may appear once per level, and that inner levels inherit.
  package static func value(
    _ name: String, _ contexts: DirectiveContexts, _ form: ArgumentForm, _ initial: String, _ help: String,
    example: String = "", trust: TrustEffect = .untold
  ) -> DirectiveEntry {
    DirectiveEntry(
      name: name, contexts: contexts, form: form, inheritance: .value, initial: initial, help: help,
      example: example, trust: trust)
  }

  /// Creates a directive whose lines in one level make a list.
  package static func list(
    _ name: String, _ contexts: DirectiveContexts, _ form: ArgumentForm, _ initial: String, _ help: String,
    example: String = "", trust: TrustEffect = .untold
  ) -> DirectiveEntry {
    DirectiveEntry(
      name: name, contexts: contexts, form: form, isRepeatable: true, inheritance: .list, initial: initial, help: help,
      example: example, trust: trust)
  }

  /// Creates a directive that applies to its own level only.
  package static func local(
    _ name: String, _ contexts: DirectiveContexts, _ form: ArgumentForm, _ initial: String, _ help: String,
    repeatable: Bool = false, example: String = "", trust: TrustEffect = .untold
  ) -> DirectiveEntry {
    DirectiveEntry(
      name: name, contexts: contexts, form: form, isRepeatable: repeatable, initial: initial, help: help,
      example: example, trust: trust)
  }

  /// Creates a directive that applies to its own level only and has no default.
  package static func local(
    _ name: String, _ contexts: DirectiveContexts, _ form: ArgumentForm, _ help: String, repeatable: Bool = false,
    example: String = "", trust: TrustEffect = .untold
  ) -> DirectiveEntry {
    local(name, contexts, form, "", help, repeatable: repeatable, example: example, trust: trust)
  }

  /// Creates a directive that is accepted and has no effect. `remark`: tells more of a line than the reason; a warning, if
  /// its author may miss the effect.
  package static func inert(
    _ name: String, _ contexts: DirectiveContexts, _ form: ArgumentForm = .anything, because reason: String,
    remark: @escaping @Sendable (Directive) -> Diagnostic? = { _ in nil }
  ) -> DirectiveEntry {
    var entry = DirectiveEntry(
      name: name, contexts: contexts, form: form, isRepeatable: true, trust: .none, status: .withoutEffect(reason))
    entry.remark = remark
    return entry
  }

  /// Creates the rows for directives that are planned but not implemented.
  package static func planned(_ names: String, meanwhile: String = "") -> [DirectiveEntry] {
    rows(names, .planned(meanwhile))
  }

  /// Creates the rows for nginx's directives that are outside sallyport's scope.
  package static func foreign(_ names: String, instead: String) -> [DirectiveEntry] {
    rows(names, .foreign(instead))
  }

  private static func rows(_ names: String, _ status: DirectiveStatus) -> [DirectiveEntry] {
    names.split(whereSeparator: { $0 == " " || $0 == "\n" }).map {
      DirectiveEntry(
        name: String($0), contexts: [], form: .words(0...Int.max, ""), isRepeatable: true, status: status)
    }
  }
}

/// A row of a directive, by which code finds the directive's lines: the name stands in the row alone.
package protocol DirectiveRow {
  var entry: DirectiveEntry { get }
}

extension DirectiveEntry: DirectiveRow {
  package var entry: DirectiveEntry { self }

  /// The lines in effect at a level, by how the directive is inherited. Asked some hundred times for each server block, so it
  /// copies no row.
  package func lines(in scope: Scope) -> [Directive] {
    switch inheritance {
    case .value: scope.value(name).map { [$0] } ?? []
    case .list: scope.list(name)
    case .none: scope.own(name)
    }
  }
}

extension DirectiveRow {
  package var name: String { entry.name }

  package func lines(in scope: Scope) -> [Directive] { entry.lines(in: scope) }
  /// The line in effect at a level, the first of several; nil: there is none.
  package func line(in scope: Scope) -> Directive? { lines(in: scope).first }
  /// The line of the level itself, the first of several; nil: there is none.
  package func ownLine(in scope: Scope) -> Directive? { scope.own(name).first }
  /// The first word of the line in effect; nil: there is no line.
  package func text(in scope: Scope) -> String? { line(in: scope)?.text(0) }
  /// What the line in effect says; nil: there is no line.
  package func flag(in scope: Scope) -> Bool? { text(in: scope).flatMap { Flag($0) } }
  package func seconds(in scope: Scope) -> Int? { text(in: scope).flatMap { Quantity.seconds($0) } }
  /// The line in effect, if it says `off`.
  package func lineOff(in scope: Scope) -> Directive? { flag(in: scope) == false ? line(in: scope) : nil }
}
