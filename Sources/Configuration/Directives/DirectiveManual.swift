import Features
import Forward
import Language
import Traffic

/// Generates docs/DIRECTIVES.md from the table. A test compares the file with the output.
package enum DirectiveManual {
  package static func markdown() -> String {
    var text = """
      # Directives

      This page is generated from the rows of all features in `Sources/Features`; a test compares the two. Names, contexts,
      inheritance and defaults are nginx's unless a row says otherwise. *Inherits* says what an inner level without the
      directive gets: `value`, the value of the outer level; `list`, all lines of the outer level. An inner level with a line
      of its own inherits no line.

      """
    for family in Features.all.directives.table.families {
      text +=
        "\n## \(family.title)\n\n| directive | contexts | default | inherits | meaning | example |\n| --- | --- | --- | --- | --- | --- |\n"
      for entry in family.entries where entry.status == .supported {
        let usage = entry.form.usage.isEmpty ? entry.name : "\(entry.name) \(entry.form.usage)"
        let initial = entry.initial.isEmpty ? "" : "`\(entry.initial.cell)`"
        let inherits = entry.inheritance == .none ? "" : entry.inheritance.rawValue
        text += "| `\(usage.cell)` | \(entry.contexts.names.joined(separator: ", ")) | \(initial) | \(inherits)"
        let example = entry.example.isEmpty ? "" : "`\(entry.example.cell)`"
        text += " | \(entry.help.cell) | \(example) |\n"
      }
    }
    text +=
      "\n## Accepted without effect\n\nWhere a row names a value, sallyport refuses every other one.\n\n| directive | why |\n| --- | --- |\n"
    for entry in Features.all.directives.table.families.flatMap(\.entries) {
      if case .withoutEffect(let reason) = entry.status { text += "| `\(entry.accepted.cell)` | \(reason.cell) |\n" }
    }
    text += "\n## Answers that differ from nginx's by intent\n\n| difference | reason |\n| --- | --- |\n"
    for (difference, reason) in meantDifferences { text += "| \(difference.cell) | \(reason.cell) |\n" }
    if !plannedDirectives.isEmpty {
      text +=
        "\n## Not supported yet\n\nsallyport refuses these directives by name.\n\n| directives | until then |\n| --- | --- |\n"
      text += grouped(plannedDirectives)
    }
    text +=
      "\n## nginx directives that sallyport doesn't support\n\nsallyport refuses these directives by name.\n\n| directives | instead |\n| --- | --- |\n"
    text += grouped(foreignDirectives)
    text +=
      "\n## Modules that aren't nginx's\n\nsallyport refuses these directives and variables by name, unless the configuration itself defines the variable. Where a row says so, the directives are accepted without effect.\n\n| module | directives | variables | instead |\n| --- | --- | --- | --- |\n"
    for module in foreignModules {
      let directives = module.directives.map { "`\($0)`" }.joined(separator: " ")
      let variables = module.variables.map { "`$\($0)`" }.joined(separator: " ")
      let advice = (module.isHarmless ? "without effect: " : "") + module.instead
      text += "| \(module.name.cell) | \(directives) | \(variables) | \(advice.cell) |\n"
    }
    return text
  }

  /// Makes one row for each run of names with the same advice.
  private static func grouped(_ entries: [DirectiveEntry]) -> String {
    var rows: [(names: [String], advice: String)] = []
    for entry in entries {
      let advice: String
      switch entry.status {
      case .planned(let text), .foreign(let text): advice = text
      case .supported, .withoutEffect: continue
      }
      if let last = rows.indices.last, rows[last].advice == advice {
        rows[last].names.append(entry.name)
      } else {
        rows.append(([entry.name], advice))
      }
    }
    return rows.map { "| \($0.names.map { "`\($0)`" }.joined(separator: " ")) | \($0.advice.cell) |\n" }.joined()
  }
}

extension DirectiveEntry {
  /// The name of a directive without effect, with the values that it is accepted with if others are refused.
  var accepted: String { if case .oneOf = form { "\(name) \(form.usage)" } else { name } }
}

extension String {
  /// The text, escaped for a cell of a Markdown table.
  fileprivate var cell: String {
    split(separator: "|", omittingEmptySubsequences: false).joined(separator: "\\|")
  }
}
