import Testing

@testable import Configuration
@testable import Features
@testable import Language
@testable import Traffic

@Suite struct `The reference that help prints` {
  @Test func `every variable tells its value and its level, and help finds it by its name`() {
    let entries = Features.all.directives.variables.entries
    #expect(entries.count > 120)
    #expect(Set(entries.map(\.name)).count == entries.count)
    for entry in entries {
      #expect(entry.value.hasSuffix(".") && !entry.levels.isEmpty, "\(entry.name): \(entry.value)")
      let text = Reference.text(of: "$\(entry.name.replacing("NAME", with: "ssl_cn"))")
      #expect(text?.hasPrefix("$\(entry.name)\n") == true, "\(entry.name)")
    }
  }

  @Test func `each directive is found by its name, with its contexts and its example`() throws {
    for entry in Features.all.directives.table.families.flatMap(\.entries) {
      #expect(Reference.text(of: entry.name)?.contains(entry.name) == true, "\(entry.name)")
    }
    let text = try #require(Reference.text(of: "ssl_client_allow"))
    #expect(text.hasPrefix("ssl_client_allow ") && text.contains("    contexts  http, server"), "\(text)")
    #expect(text.contains("    example   ssl_client_allow "))
    #expect(text.split(separator: "\n").dropFirst().allSatisfy { $0.hasPrefix("    ") }, "\(text)")
  }

  @Test func `a name that differs in context has a row for each meaning`() throws {
    let text = try #require(Reference.text(of: "server"))
    #expect(text.matches(of: #/(?m)^server/#).count > 1, "\(text)")
  }

  @Test func `a directive that is refused says what to use instead`() throws {
    let name = try #require(foreignDirectives.first).name
    #expect(try #require(Reference.text(of: name)).contains("Not supported: "))
    #expect(try #require(Reference.text(of: "server_names_hash_max_size")).contains("Accepted without effect: "))
  }

  @Test func `a wrong name has no row, and a near one is at hand`() {
    #expect(Reference.text(of: "ssl_client_alow") == nil && Reference.text(of: "$ssl_client_san_dnss") == nil)
    #expect(
      Spelling.nearest(to: "ssl_client_alow", among: Reference.names(like: "ssl_client_alow")) == "ssl_client_allow")
    #expect(
      Spelling.nearest(to: "$ssl_client_san_dnss", among: Reference.names(like: "$ssl_client_san_dnss"))
        == "$ssl_client_san_dns")
  }
}
