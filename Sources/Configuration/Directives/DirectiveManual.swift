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
      of its own inherits no line. `sallyport help NAME` prints the row of a directive or of a [variable](VARIABLES.md).

      """
    let titles =
      Features.all.directives.table.families.map(\.title)
      + ["Accepted without effect", "Answers that differ from nginx's by intent"]
      + (plannedDirectives.isEmpty ? [] : ["Not supported yet"])
      + ["nginx directives that sallyport doesn't support", "Modules that aren't nginx's"]
    text += "\n" + titles.map { "[\($0)](#\($0.anchor))" }.joined(separator: " ·\n") + "\n"
    var anchors: Set<String> = []
    for family in Features.all.directives.table.families {
      text +=
        "\n## \(family.title)\n\n| directive | contexts | default | inherits | meaning | example |\n| --- | --- | --- | --- | --- | --- |\n"
      for entry in family.entries where entry.status == .supported {
        let usage = entry.form.usage.isEmpty ? entry.name : "\(entry.name) \(entry.form.usage)"
        let initial = entry.initial.isEmpty ? "" : "`\(entry.initial.cell)`"
        let inherits = entry.inheritance == .none ? "" : entry.inheritance.rawValue
        let anchor = anchors.insert(entry.name).inserted ? entry.name : "\(entry.name)-\(family.title.anchor)"
        text +=
          "| `\(usage.cell)`<a id=\"\(anchor)\"></a> | \(entry.contexts.names.joined(separator: ", ")) | \(initial) | \(inherits)"
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
  /// The name that a browser of Markdown gives a heading.
  fileprivate var anchor: String {
    lowercased().filter { $0.isLetter || $0.isNumber || $0 == " " || $0 == "-" || $0 == "_" }.replacing(" ", with: "-")
  }

  /// The text, escaped for a cell of a Markdown table.
  var cell: String {
    split(separator: "|", omittingEmptySubsequences: false).joined(separator: "\\|")
  }
}
