import Observability

/// One level of the tree with the levels around it: nginx's rules of inheritance.
final class Scope {
  private let byName: [String: [Directive]]
  /// In the order of the file.
  let directives: [Directive]
  let outer: Scope?

  init(_ directives: [Directive], outer: Scope?) {
    self.directives = directives
    self.outer = outer
    byName = Dictionary(grouping: directives, by: \.name)
  }

  /// What this very level says.
  func own(_ name: String) -> [Directive] { byName[name] ?? [] }

  /// A directive that is said once: the nearest level's.
  func value(_ name: String) -> Directive? {
    byName[name]?.last ?? outer?.value(name)
  }

  /// A directive whose lines make a list: all lines of the nearest level that has any.
  func list(_ name: String) -> [Directive] {
    byName[name] ?? outer?.list(name) ?? []
  }

  /// Two directives whose lines make one list, in the order of the file.
  func list(_ first: String, _ second: String) -> [Directive] {
    if byName[first] == nil, byName[second] == nil { return outer?.list(first, second) ?? [] }
    return directives.filter { $0.name == first || $0.name == second }
  }

  func flag(_ name: String) -> Bool? { value(name).flatMap { Flag($0.text(0)) } }
  func number(_ name: String) -> Int? { value(name).flatMap { Quantity.number($0.text(0)) } }
  func size(_ name: String) -> Int? { value(name).flatMap { Quantity.size($0.text(0)) } }
  func milliseconds(_ name: String) -> Int? { value(name).flatMap { Quantity.milliseconds($0.text(0)) } }
  func seconds(_ name: String) -> Int? { value(name).flatMap { Quantity.seconds($0.text(0)) } }
  func text(_ name: String) -> String? { value(name)?.text(0) }
}

extension Directive {
  /// The text of a word; empty when it is not there, which the table has ruled out where it matters.
  func text(_ index: Int) -> String { index < arguments.count ? arguments[index].text : "" }

  /// The place of a word, or of the name.
  func place(_ index: Int) -> SourceLocation { index < arguments.count ? arguments[index].location : location }
}
