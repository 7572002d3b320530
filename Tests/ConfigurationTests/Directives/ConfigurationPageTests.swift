@testable import Traffic
@testable import Forward
@testable import Features
import Testing

@testable import Configuration
@testable import Language

@Suite struct `The manual page sallyport.conf(5)` {
  private let page = ConfigurationPage.roff(date: "2026-01-02", version: "sallyport 9.9.9")

  @Test func `has every supported directive with its arguments, and every directive that is refused`() {
    let lines = Set(page.split(separator: "\n").map(String.init))
    for entry in Features.all.directives.table.families.flatMap(\.entries) where entry.status == .supported {
      let usage = entry.form.usage.isEmpty ? entry.name : "\(entry.name) \(entry.form.usage)"
      #expect(lines.contains(RoffText.escaped("`\(usage)`")), "\(usage)")
    }
    for entry in plannedDirectives + foreignDirectives {
      #expect(page.contains(RoffText.escaped("`\(entry.name)`")), "\(entry.name)")
    }
  }

  @Test func `begins with its title, date and version, and has no other requests than these`() {
    let lines = page.split(separator: "\n")
    #expect(lines.first == ".TH \"sallyport.conf\" 5 \"2026-01-02\" \"sallyport 9.9.9\"")
    let requests = Set(lines.filter { $0.hasPrefix(".") || $0.hasPrefix("'") }.map { $0.prefix { $0 != " " } })
    #expect(requests == [".TH", ".SH", ".PP", ".TP", ".IP", ".br"])
    #expect(page.utf8.allSatisfy { $0 == 10 || (32..<127).contains($0) })
  }

  @Test(arguments: [
    ("plain - text", "plain - text"), ("`a-b 'c'`", "\\fBa\\-b \\(aqc\\(aq\\fR"), (".x", "\\&.x"), ("'x", "\\&'x"),
    ("a\\b", "a\\(rsb"), ("^~", "\\(ha\\(ti"), ("§ …", "\\[u00A7] \\[u2026]"), ("open `code", "open \\fBcode\\fR"),
    ("two\nlines", "two lines"),
  ])
  func `escapes what roff would take for an instruction`(text: String, escaped: String) {
    #expect(RoffText.escaped(text) == escaped)
  }
}
