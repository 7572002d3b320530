package import Language

/// From what texts get their values: the variables that `set` and the tables of the block make of others. For rules about
/// what a configuration says.
package struct VariableOrigins {
  /// By slot: `map`, `geo`, `split_clients`, `keyval`.
  package let computed: [Int: ComputedVariable]
  /// By slot: the values of the `set` lines of a level and of those around it.
  package let assigned: [Int: [Template]]

  package init(at scope: Scope, _ builder: inout SettingsBuilder) {
    computed = builder.computed
    var assigned: [Int: [Template]] = [:]
    var level: Scope? = scope
    while let next = level {
      for line in next.own("set") {
        guard let slot = builder.variables.slots[line.text(0).dropFirst().lowercased()] else { continue }
        assigned[slot, default: []].append(builder.template(line, 1))
      }
      level = next.outer
    }
    self.assigned = assigned
  }

  /// What a value depends on: also that which decides between the values of a `map`. Captures are not followed.
  package func variables(decidingOn text: Template) -> [Variable] {
    var found: [Variable] = []
    var seen: Set<Int> = []
    var rest = [text]
    while let next = rest.popLast() {
      for case .variable(let variable) in next.parts {
        found.append(variable)
        guard let slot = variable.slot, seen.insert(slot).inserted else { continue }
        rest += (computed[slot]?.templates ?? []) + (assigned[slot] ?? [])
      }
    }
    return found
  }
}

extension Variable {
  /// The slot of a variable that the configuration defines.
  package var slot: Int? {
    switch self {
    case .slot(let slot), .settable(let slot, _): slot
    default: nil
    }
  }
}
