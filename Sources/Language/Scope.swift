package import Observability

/// One level of the configuration and the levels around it. It applies nginx's rules of inheritance.
package final class Scope: Sendable {
  private let byName: [String: [Directive]]
  /// The marks of the names of this level.
  private let marks: UInt64
  /// The directives of this level, in the order of the file.
  package let directives: [Directive]
  package let outer: Scope?

  package init(_ directives: [Directive], outer: Scope?) {
    self.directives = directives
    self.outer = outer
    byName = Dictionary(grouping: directives, by: \.name)
    marks = Self.marks(byName)
  }

  private init(_ other: Scope, renamed name: (String) -> String?) {
    directives = other.directives
    outer = other.outer?.renamed(name)
    byName = other.byName.reduce(into: [:]) { names, entry in
      if let name = name(entry.key) { names[name] = entry.value }
    }
    marks = Self.marks(byName)
  }

  /// One bit for a name. Hundreds of rows look for their lines in each level, and nearly all find none: where no name has the bit,
  /// the name needs no hash.
  private static func mark(_ name: String) -> UInt64 {
    let place = UInt64(truncatingIfNeeded: name.utf8.count &* 11 &+ Int(name.utf8.last ?? 0))
    return 1 &<< place
  }

  private static func marks(_ byName: [String: [Directive]]) -> UInt64 {
    byName.keys.reduce(0) { $0 | mark($1) }
  }

  /// The lines of a name in this level; nil: there are none.
  private func lines(_ name: String) -> [Directive]? {
    marks & Self.mark(name) == 0 ? nil : byName[name]
  }

  /// The level and those around it, where each directive is found by the name that `name` gives it; nil: it is not found.
  package func renamed(_ name: (String) -> String?) -> Scope { Scope(self, renamed: name) }

  /// Returns the directives of this name in this level itself.
  package func own(_ name: String) -> [Directive] { lines(name) ?? [] }

  /// Returns a directive that may appear once: the one of the nearest level that has it.
  package func value(_ name: String) -> Directive? {
    lines(name)?.last ?? outer?.value(name)
  }

  /// Returns the lines of a list directive: all lines of the nearest level that has any.
  package func list(_ name: String) -> [Directive] {
    lines(name) ?? outer?.list(name) ?? []
  }

  /// Returns the lines of two directives that make one list, in the order of the file.
  package func list(_ first: String, _ second: String) -> [Directive] {
    if lines(first) == nil, lines(second) == nil { return outer?.list(first, second) ?? [] }
    return directives.filter { $0.name == first || $0.name == second }
  }

  /// Returns the lines of a list directive as `name_inherit` says: `off` takes none of the outer lines, and `merge` puts
  /// them before its own (nginx 1.29.3).
  package func inheritingList(_ name: String) -> [Directive] {
    let own = lines(name) ?? []
    switch text("\(name)_inherit")?.lowercased() {
    case "off": return own
    case "merge": return (outer?.inheritingList(name) ?? []) + own
    default: return own.isEmpty ? outer?.inheritingList(name) ?? [] : own
    }
  }

  package func flag(_ name: String) -> Bool? { value(name).flatMap { Flag($0.text(0)) } }
  package func number(_ name: String) -> Int? { value(name).flatMap { Quantity.number($0.text(0)) } }
  package func size(_ name: String) -> Int? { value(name).flatMap { Quantity.size($0.text(0)) } }
  package func milliseconds(_ name: String) -> Int? { value(name).flatMap { Quantity.milliseconds($0.text(0)) } }
  package func seconds(_ name: String) -> Int? { value(name).flatMap { Quantity.seconds($0.text(0)) } }
  package func text(_ name: String) -> String? { value(name)?.text(0) }
}

extension Directive {
  /// Returns the text of a word, or an empty text if the word is missing. The checker refuses a missing required word.
  package func text(_ index: Int) -> String { index < arguments.count ? arguments[index].text : "" }

  /// Returns the place of a word, or the place of the directive's name if the word is missing.
  package func place(_ index: Int) -> SourceLocation { index < arguments.count ? arguments[index].location : location }
}
