import Features
import Forward
import Language
import Traffic

/// The manual page sallyport.conf(5), in roff. It comes from the table of directives, as docs/DIRECTIVES.md does, so the
/// page describes the binary that prints it.
package enum ConfigurationPage {
  /// Returns the page. `date` and `version` stand in the page's footer.
  package static func roff(date: String, version: String) -> String {
    var page = RoffText()
    page.title("sallyport.conf", section: 5, date: date, source: version)
    page.section("NAME")
    page.line("sallyport.conf \\- configuration of sallyport(8), in nginx's language", isRoff: true)
    page.section("SYNOPSIS")
    page.line("`/etc/sallyport/sallyport.conf`")
    page.section("DESCRIPTION")
    describeLanguage(&page)
    for family in Features.all.directives.table.families { list(family.title, family.entries, &page) }
    listWithoutEffect(&page)
    page.section("Differences from nginx")
    for (difference, reason) in meantDifferences { page.item("", [difference, reason]) }
    if !plannedDirectives.isEmpty {
      page.section("Not supported yet")
      page.line("sallyport refuses these directives by name.")
      refused(plannedDirectives, &page)
    }
    page.section("Not supported")
    page.line("sallyport refuses these directives of nginx by name.")
    refused(foreignDirectives, &page)
    page.section("FILES")
    page.item("`/etc/sallyport/sallyport.conf`", ["The configuration that the systemd unit names."])
    page.item("`/usr/share/doc/sallyport/examples`", ["Configurations for common cases."])
    page.section("SEE ALSO")
    page.line("`sallyport.variables`(5), `sallyport`(8), `sallyport-check`(8), `sallyport-run`(8)")
    return page.text
  }

  private static func describeLanguage(_ page: inout RoffText) {
    page.line(
      "A configuration consists of directives. A simple directive is a name, its arguments and a semicolon. A block directive has further directives between braces. `#` starts a comment."
    )
    page.paragraph()
    page.line(
      "File names are relative to the folder of the main configuration file. A size is a number of bytes, or a number with `k`, `m` or `g`. A time is a number of seconds, or numbers with `ms`, `s`, `m`, `h`, `d`, `w`, `M` or `y`."
    )
    page.paragraph()
    page.line(
      "Each directive below has the contexts in which it may stand, its default, and what an inner level without the directive gets: the value of the outer level, or all lines of the outer level. An inner level with a line of its own inherits no line."
    )
    page.paragraph()
    page.line(
      "To test a configuration, run `sallyport check`. It reports all errors with their files and lines. `sallyport check --explain` tells what a configuration does with a request."
    )
  }

  private static func list(_ title: String, _ entries: [DirectiveEntry], _ page: inout RoffText) {
    page.section(title)
    for entry in entries where entry.status == .supported {
      let usage = entry.form.usage.isEmpty ? entry.name : "\(entry.name) \(entry.form.usage)"
      let contexts = entry.contexts.names.joined(separator: ", ")
      var facts = entry.contexts.names.count == 1 ? "Context: \(contexts)." : "Contexts: \(contexts)."
      if !entry.initial.isEmpty { facts += " Default: `\(entry.initial)`." }
      switch entry.inheritance {
      case .none: break
      case .value: facts += " Inherits the value."
      case .list: facts += " Inherits all lines."
      }
      var paragraphs = [entry.help, facts]
      if !entry.example.isEmpty { paragraphs.append("Example: `\(entry.example)`") }
      page.item("`\(usage)`", paragraphs)
    }
  }

  private static func listWithoutEffect(_ page: inout RoffText) {
    page.section("Accepted without effect")
    for entry in Features.all.directives.table.families.flatMap(\.entries) {
      if case .withoutEffect(let reason) = entry.status { page.item("`\(entry.accepted)`", [reason]) }
    }
  }

  /// Lists directives, those with the same advice together.
  private static func refused(_ entries: [DirectiveEntry], _ page: inout RoffText) {
    var names: [String] = []
    var advice = ""
    for entry in entries {
      let text: String
      switch entry.status {
      case .planned(let words), .foreign(let words): text = words
      case .supported, .withoutEffect: continue
      }
      if text != advice, !names.isEmpty {
        page.item(names.map { "`\($0)`" }.joined(separator: " "), [advice])
        names = []
      }
      advice = text
      names.append(entry.name)
    }
    if !names.isEmpty { page.item(names.map { "`\($0)`" }.joined(separator: " "), [advice]) }
  }
}
