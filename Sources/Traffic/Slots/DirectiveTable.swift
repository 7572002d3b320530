package import Language

/// All directives that sallyport recognises, by name.
package struct DirectiveTable: Sendable {
  /// The groups of directives, in the order of the manual's chapters.
  package let families: [(title: String, entries: [DirectiveEntry])]

  /// The directives that options of `sallyport proxy` stand for.
  package let options: [(directive: String, option: String)]

  /// The entries of a name in `families`. The meaning of a name can depend on the context (`server`).
  private let byName: [String: [DirectiveEntry]]

  /// The names that sallyport knows only to refuse them. A start without a fault never makes this table.
  private static let refused: [String: [DirectiveEntry]] = Dictionary(
    grouping: plannedDirectives + foreignDirectives, by: \.name)

  /// What lines may stand in.
  private let contexts: DirectiveContexts

  /// The context of the lines of a block, whose directive stands in `outer`; nil: the block has no lines of directives.
  package func context(ofBlock name: String, in outer: DirectiveContexts) -> DirectiveContexts? {
    contexts.inside(block: name, in: outer)
  }

  /// The directives whose blocks have lines of their own form.
  package let tables: Set<String>

  init(_ features: [any DirectiveFeature.Type]) {
    families = Chapter.allCases.map { chapter in
      (chapter.rawValue, features.filter { $0.chapter == chapter }.flatMap { $0.directives })
    }
    var options: [(directive: String, option: String)] = []
    var byName: [String: [DirectiveEntry]] = [:]
    var contexts = DirectiveContexts()
    var tables: Set<String> = []
    byName.reserveCapacity(families.reduce(0) { $0 + $1.entries.count })
    // In one turn and without copies of rows, which have many parts: each start does this.
    for family in families {
      for place in family.entries.indices {
        let name = family.entries[place].name
        byName[name, default: []].append(family.entries[place])
        contexts.formUnion(family.entries[place].contexts)
        if let option = family.entries[place].option { options.append((name, option)) }
        if family.entries[place].form.isTable { tables.insert(name) }
      }
    }
    (self.options, self.byName, self.contexts, self.tables) = (options, byName, contexts, tables)
  }

  /// The rows of a name: those of `families`, or, if there are none, those that tell why the name is refused.
  package func entries(named name: String) -> [DirectiveEntry] { byName[name] ?? Self.refused[name] ?? [] }

  /// Returns the supported name nearest to a misspelt name, and prefers names that are valid in this context.
  package func nearest(to name: String, in context: DirectiveContexts) -> String? {
    let supported = families.flatMap(\.entries).filter { $0.status == .supported && $0.contexts.contains(context) }
    return Spelling.nearest(to: name, among: supported.map(\.name))
      ?? Spelling.nearest(to: name, among: Set(byName.keys).union(Self.refused.keys).sorted())
  }
}
