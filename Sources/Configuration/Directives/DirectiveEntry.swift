/// Where a directive may stand.
package struct DirectiveContexts: OptionSet, Sendable, Hashable {
  package let rawValue: UInt8
  package init(rawValue: UInt8) { self.rawValue = rawValue }
  package static let main = DirectiveContexts(rawValue: 1)
  package static let events = DirectiveContexts(rawValue: 2)
  package static let http = DirectiveContexts(rawValue: 4)
  package static let server = DirectiveContexts(rawValue: 8)
  package static let location = DirectiveContexts(rawValue: 16)
  package static let upstream = DirectiveContexts(rawValue: 32)
  /// http, server and location: where inherited directives stand.
  package static let everyHTTP: DirectiveContexts = [.http, .server, .location]

  package var names: [String] {
    let all: [(DirectiveContexts, String)] = [
      (.main, "main"), (.events, "events"), (.http, "http"), (.server, "server"), (.location, "location"),
      (.upstream, "upstream"),
    ]
    return all.filter { contains($0.0) }.map(\.1)
  }
}

/// What may follow a directive's name. Checked before anything is built, so that a builder sees only what fits.
package enum ArgumentForm: Sendable, Hashable {
  case none
  case flag
  case number(ClosedRange<Int>)
  case size
  /// Milliseconds may be said (`500ms`).
  case milliseconds
  /// Whole seconds only.
  case seconds
  case oneOf([String])
  /// One or more of these.
  case someOf([String])
  /// A count and a size.
  case buffers
  /// The name of a variable of the environment, without a value.
  case environmentName
  /// Free words, judged by who builds the value.
  case words(ClosedRange<Int>, String)
  /// A block, with its words before the brace.
  case block(ClosedRange<Int>, String)

  /// Whatever stands there, a block too: of a directive that changes nothing.
  package static let anything = words(0...Int.max, "…")

  package var opensBlock: Bool { if case .block = self { true } else { false } }

  /// As a manual spells it.
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
    case .block(_, let usage): usage.isEmpty ? "{ … }" : "\(usage) { … }"
    }
  }

  package var argumentCount: ClosedRange<Int> {
    switch self {
    case .none: 0...0
    case .flag, .number, .size, .milliseconds, .seconds, .oneOf, .environmentName: 1...1
    case .someOf: 1...Int.max
    case .buffers: 2...2
    case .words(let count, _), .block(let count, _): count
    }
  }
}

/// How a value reaches inner levels.
package enum Inheritance: String, Sendable, Hashable {
  /// It stays where it stands.
  case none
  /// An inner level that says nothing takes the outer value.
  case value
  /// An inner level takes all of the outer lines, or, where it has one of its own, none of them.
  case list
}

/// Whether sallyport does what the directive says.
package enum DirectiveStatus: Sendable, Hashable {
  case supported
  /// Taken without complaint, listed by `check`: why it changes nothing.
  case withoutEffect(String)
  /// Drawn in the plan, not built: what to do meanwhile.
  case planned(String)
  /// nginx's, and not ours: what to do instead.
  case foreign(String)
}

/// One row of the table of directives.
package struct DirectiveEntry: Sendable, Hashable {
  package var name: String
  package var contexts: DirectiveContexts
  package var form: ArgumentForm
  package var isRepeatable = false
  package var inheritance = Inheritance.none
  /// nginx's default as a manual spells it; empty for none.
  package var initial = ""
  package var help = ""
  package var status = DirectiveStatus.supported

  /// A directive that a level says at most once and inner levels inherit.
  static func value(
    _ name: String, _ contexts: DirectiveContexts, _ form: ArgumentForm, _ initial: String, _ help: String
  ) -> DirectiveEntry {
    DirectiveEntry(name: name, contexts: contexts, form: form, inheritance: .value, initial: initial, help: help)
  }

  /// A directive of which the lines of one level make a list.
  static func list(
    _ name: String, _ contexts: DirectiveContexts, _ form: ArgumentForm, _ initial: String, _ help: String
  ) -> DirectiveEntry {
    DirectiveEntry(
      name: name, contexts: contexts, form: form, isRepeatable: true, inheritance: .list, initial: initial, help: help)
  }

  /// A directive that speaks of its own level only.
  static func local(
    _ name: String, _ contexts: DirectiveContexts, _ form: ArgumentForm, _ initial: String, _ help: String,
    repeatable: Bool = false
  ) -> DirectiveEntry {
    DirectiveEntry(
      name: name, contexts: contexts, form: form, isRepeatable: repeatable, initial: initial, help: help)
  }

  /// The same without a default.
  static func local(
    _ name: String, _ contexts: DirectiveContexts, _ form: ArgumentForm, _ help: String, repeatable: Bool = false
  ) -> DirectiveEntry {
    local(name, contexts, form, "", help, repeatable: repeatable)
  }

  /// A directive that is taken and changes nothing.
  static func inert(
    _ name: String, _ contexts: DirectiveContexts, _ form: ArgumentForm = .anything, because reason: String
  ) -> DirectiveEntry {
    DirectiveEntry(name: name, contexts: contexts, form: form, isRepeatable: true, status: .withoutEffect(reason))
  }

  /// Directives of the plan that are not built yet.
  static func planned(_ names: String, meanwhile: String = "") -> [DirectiveEntry] {
    rows(names, .planned(meanwhile))
  }

  /// Directives of nginx that are outside our scope.
  static func foreign(_ names: String, instead: String) -> [DirectiveEntry] {
    rows(names, .foreign(instead))
  }

  private static func rows(_ names: String, _ status: DirectiveStatus) -> [DirectiveEntry] {
    names.split(whereSeparator: { $0 == " " || $0 == "\n" }).map {
      DirectiveEntry(
        name: String($0), contexts: [], form: .words(0...Int.max, ""), isRepeatable: true, status: status)
    }
  }
}
