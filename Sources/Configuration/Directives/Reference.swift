import Features
import Forward
import Language
import Traffic

/// What `sallyport help NAME` says of a directive or a variable: its row of the manual.
package enum Reference {
  /// The rows of a name; nil: neither a directive nor a variable has it. A `$` says that a variable is meant.
  package static func text(of name: String) -> String? {
    let isVariable = name.hasPrefix("$")
    let entries = isVariable ? [] : Features.all.directives.table.entries(named: name)
    let rows = entries.map(row) + (variable(isVariable ? String(name.dropFirst()) : name).map { [row($0)] } ?? [])
    return rows.isEmpty ? nil : rows.joined(separator: "\n")
  }

  /// The names that a misspelt one may mean: those of directives, or those of variables for one with a `$`.
  package static func names(like word: String) -> [String] {
    guard word.hasPrefix("$") else {
      return Features.all.directives.table.families.flatMap(\.entries).map(\.name)
    }
    return Features.all.directives.variables.entries.map { "$\($0.name)" }
  }

  /// The variable of a name, or the prefix of which it is one.
  private static func variable(_ name: String) -> VariableEntry? {
    let variables = Features.all.directives.variables, name = name.lowercased()
    let entries = variables.entries
    if let exact = entries.first(where: { $0.name == name }) { return exact }
    guard case .known = variables.look(up: name) else { return nil }
    let prefixes = entries.filter { $0.name.hasSuffix("NAME") && name.hasPrefix($0.name.dropLast(4)) }
    return prefixes.max { $0.name.utf8.count < $1.name.utf8.count }
  }

  private static func row(_ entry: DirectiveEntry) -> String {
    let usage = entry.form.usage.isEmpty ? entry.name : "\(entry.name) \(entry.form.usage)"
    let help: String
    switch entry.status {
    case .supported: help = entry.help
    case .withoutEffect(let reason): help = "Accepted without effect: \(reason)."
    case .planned(let advice): help = "Not supported yet: \(advice)."
    case .foreign(let advice): help = "Not supported: \(advice)."
    }
    let inherits =
      switch entry.inheritance {
      case .none: ""
      case .value: "the value of the outer level"
      case .list: "all lines of the outer level, at a level without one of its own"
      }
    return block(
      usage, help,
      [
        ("contexts", entry.contexts.names.joined(separator: ", ")), ("default", entry.initial), ("inherits", inherits),
        ("example", entry.example),
      ])
  }

  private static func row(_ entry: VariableEntry) -> String {
    block("$\(entry.name)", entry.value, [("levels", entry.levels), ("since", entry.since)])
  }

  /// A paragraph, with its facts below; an empty fact is left out.
  private static func block(_ title: String, _ text: String, _ facts: [(name: String, value: String)]) -> String {
    var lines = [title, ""]
    var line = "   "
    for word in text.split(separator: " ") {
      if line.count + word.count >= 79 {
        lines.append(line)
        line = "   "
      }
      line += " \(word)"
    }
    lines += [line, ""]
    for (name, value) in facts where !value.isEmpty {
      lines.append("    \(name)\(String(repeating: " ", count: max(1, 10 - name.utf8.count)))\(value)")
    }
    return lines.joined(separator: "\n") + "\n"
  }
}
