@testable import Traffic
@testable import Forward
@testable import Features
import TestSupport
import Glibc
import Testing

@testable import Configuration
@testable import Language

@Suite struct DirectiveManualTests {
  @Test func `the manual says what the table says`() throws {
    for (name, text) in [("DIRECTIVES", DirectiveManual.markdown()), ("VARIABLES", VariableManual.markdown())] {
      let path = "\(checkout)/docs/\(name).md"
      if getenv("SALLYPORT_WRITE_MANUAL") != nil, let file = fopen(path, "w") {
        fputs(text, file)
        fclose(file)
      }
      let written = try SourceFiles.disk.read(path, 1 << 20).get()
      #expect(
        String(decoding: written, as: UTF8.self) == text,
        "\(name): write it anew: SALLYPORT_WRITE_MANUAL=1 swift test --filter DirectiveManualTests")
    }
  }

  @Test func `no directive has two rows for one context`() {
    for entry in Features.all.directives.table.families.flatMap(\.entries) {
      let rivals = Features.all.directives.table.entries(named: entry.name).filter {
        !$0.contexts.isDisjoint(with: entry.contexts)
      }
      #expect(rivals.count == 1, "\(entry.name)")
    }
  }
}
