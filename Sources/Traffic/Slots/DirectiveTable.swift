package import Language

/// All directives that sallyport recognises, by name.
package enum DirectiveTable {
  /// The groups of directives, in the order of the manual's chapters.
  package static let families: [(title: String, entries: [DirectiveEntry])] = Chapter.allCases.map {
    ($0.rawValue, Features.directives(of: $0))
  }

  /// The directives that options of `sallyport proxy` stand for.
  package static let options: [(directive: String, option: String)] = families.flatMap(\.entries).compactMap { row in
    row.option.map { (row.name, $0) }
  }

  /// The entries of a name in `families`. The meaning of a name can depend on the context (`server`).
  private static let byName: [String: [DirectiveEntry]] = Dictionary(
    grouping: families.flatMap(\.entries), by: \.name)

  /// The names that sallyport knows only to refuse them. A start without a fault never makes this table.
  private static let refused: [String: [DirectiveEntry]] = Dictionary(
    grouping: plannedDirectives + foreignDirectives, by: \.name)

  /// What lines may stand in.
  private static let contexts = families.flatMap(\.entries).reduce(into: DirectiveContexts()) {
    $0.formUnion($1.contexts)
  }

  /// The context of the lines of a block, whose directive stands in `outer`; nil: the block has no lines of directives.
  package static func context(ofBlock name: String, in outer: DirectiveContexts) -> DirectiveContexts? {
    contexts.inside(block: name, in: outer)
  }

  /// The directives whose blocks have lines of their own form.
  package static let tables = Set(families.flatMap(\.entries).filter(\.form.isTable).map(\.name))

  /// The rows of a name: those of `families`, or, if there are none, those that tell why the name is refused.
  package static func entries(named name: String) -> [DirectiveEntry] { byName[name] ?? refused[name] ?? [] }

  /// Returns the supported name nearest to a misspelt name, and prefers names that are valid in this context.
  package static func nearest(to name: String, in context: DirectiveContexts) -> String? {
    Spelling.nearest(to: name, among: supported.filter { $0.contexts.contains(context) }.map(\.spelling))
      ?? Spelling.nearest(to: name, among: everything)
  }

  private static let supported = families.flatMap(\.entries).filter { $0.status == .supported }.map {
    (contexts: $0.contexts, spelling: Spelling($0.name))
  }
  private static let everything = Set(byName.keys).union(refused.keys).sorted().map { Spelling($0) }
}
