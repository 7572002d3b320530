package import Observability

/// One level of the configuration and the levels around it. It applies nginx's rules of inheritance.
package final class Scope: Sendable {
  private let byName: [String: [Directive]]
  /// The directives of this level, in the order of the file.
  package let directives: [Directive]
  package let outer: Scope?

  package init(_ directives: [Directive], outer: Scope?) {
    self.directives = directives
    self.outer = outer
    byName = Dictionary(grouping: directives, by: \.name)
  }

  private init(_ other: Scope, renamed name: (String) -> String?) {
    directives = other.directives
    outer = other.outer?.renamed(name)
    byName = other.byName.reduce(into: [:]) { names, entry in
      if let name = name(entry.key) { names[name] = entry.value }
    }
  }

  /// The level and those around it, where each directive is found by the name that `name` gives it; nil: it is not found.
  package func renamed(_ name: (String) -> String?) -> Scope { Scope(self, renamed: name) }

  /// Returns the directives of this name in this level itself.
  package func own(_ name: String) -> [Directive] { byName[name] ?? [] }

  /// Returns a directive that may appear once: the one of the nearest level that has it.
  package func value(_ name: String) -> Directive? {
    byName[name]?.last ?? outer?.value(name)
  }

  /// Returns the lines of a list directive: all lines of the nearest level that has any.
  package func list(_ name: String) -> [Directive] {
    byName[name] ?? outer?.list(name) ?? []
  }

  /// Returns the lines of two directives that make one list, in the order of the file.
  package func list(_ first: String, _ second: String) -> [Directive] {
    if byName[first] == nil, byName[second] == nil { return outer?.list(first, second) ?? [] }
    return directives.filter { $0.name == first || $0.name == second }
  }

  /// Returns the lines of a list directive as `name_inherit` says: `off` takes none of the outer lines, and `merge` puts
  /// them before its own (nginx 1.29.3).
  package func inheritingList(_ name: String) -> [Directive] {
    let own = byName[name] ?? []
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
