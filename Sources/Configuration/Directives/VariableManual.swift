import Features
import Traffic

/// Generates docs/VARIABLES.md and the manual page sallyport.variables(5) from what features say of their variables. A test
/// compares the file with the output.
package enum VariableManual {
  package static func markdown() -> String {
    var text = """
      # Variables

      This page is generated from the variables of all features in `Sources`; a test compares the two. The level is the block
      whose lines can name the variable. `sallyport help '$NAME'` prints a row. A variable without a value is empty, and `-`
      in a log whose format doesn't say `escape=none`. Which ones nginx lacks, and what a configuration's own variable of such
      a name means, is in [MIGRATING](MIGRATING-FROM-NGINX.md#your-own-variables).

      | variable | level | since | value |
      | --- | --- | --- | --- |

      """
    for entry in Features.all.directives.variables.entries {
      text +=
        "| `$\(entry.name)`<a id=\"\(entry.name)\"></a> | \(entry.levels) | \(entry.since) | \(entry.value.cell) |\n"
    }
    text += "\n`$1` to `$9` are what the last regular expression has captured.\n\n## Not supported yet\n\n"
    text += "sallyport refuses these variables of nginx by name, unless the configuration itself defines them: "
    return text + Features.all.directives.variables.refused.map { "`$\($0)`" }.joined(separator: " ") + "\n"
  }

  /// Returns the page. `date` and `version` stand in the page's footer.
  package static func roff(date: String, version: String) -> String {
    var page = RoffText()
    page.title("sallyport.variables", section: 5, date: date, source: version)
    page.section("NAME")
    page.line("sallyport.variables \\- variables of sallyport.conf(5)", isRoff: true)
    page.section("DESCRIPTION")
    page.line(
      "A line of the configuration can name these variables where its directive takes text with variables. A variable without a value is empty."
    )
    for entry in Features.all.directives.variables.entries {
      page.item("`$\(entry.name)`", [entry.value, "Level: \(entry.levels). Since: \(entry.since)."])
    }
    page.section("SEE ALSO")
    page.line("`sallyport.conf`(5), `sallyport`(8)")
    return page.text
  }
}
