import ConfigurationSupport
import Observability
import Testing

@testable import Language

@Suite struct ParserTests {
  @Test func `blocks nest`() {
    let tree = ParsedText("http { server { listen 80; } }").directives
    #expect(tree.first?.block?.first?.block?.first?.name == "listen")
  }

  @Test func `an include stands for the statements of the file, relative to the main file's folder`() {
    let parsed = ParsedText(
      "http { include conf.d/a.conf; }", files: ["/etc/conf.d/a.conf": "x; include b.conf;", "/etc/b.conf": "y;"])
    #expect(parsed.directives.first?.block?.map(\.name) == ["x", "y"])
    #expect(parsed.directives.first?.block?.last?.location.file == "/etc/b.conf")
  }

  @Test func `a pattern takes what matches in order, and may match nothing`() {
    let parsed = ParsedText(
      "include *.inc; include none/*;", files: ["/etc/b.inc": "b;", "/etc/a.inc": "a;"])
    #expect(parsed.directives.map(\.name) == ["a", "b"])
    #expect(parsed.problems.isEmpty)
  }

  @Test func `an include of a missing file is an error, and reading goes on`() {
    let parsed = ParsedText("include a.conf; b;")
    #expect(
      parsed.problems == [
        "1:9 cannot include \"/etc/a.conf\": no such file or directory | relative names are relative to the main file's folder"
      ])
    #expect(parsed.directives.map(\.name) == ["b"])
  }

  @Test func `a circle of includes is refused`() {
    let parsed = ParsedText("include a.conf;", files: ["/etc/a.conf": "\ninclude x.conf;"])
    #expect(
      parsed.problems == [
        "2:9 \"/etc/x.conf\" includes itself | chain of includes: /etc/x.conf → /etc/a.conf → /etc/x.conf"
      ])
  }

  @Test func `a chain of includes is bounded`() {
    let files = Dictionary(
      uniqueKeysWithValues: (0..<40).map { ("/etc/\($0).conf", "include \($0 + 1).conf;") })
    #expect(
      ParsedText("include 0.conf;", files: files).problems == ["1:9 includes are nested more than 16 deep"])
  }

  @Test func `a fault in one included file does not hide that of another`() {
    let parsed = ParsedText("include *.inc;", files: ["/etc/a.inc": "a", "/etc/b.inc": "}"])
    #expect(parsed.diagnostics.compactMap(\.location?.file) == ["/etc/a.inc", "/etc/b.inc"])
  }

  @Test func `blocks are nested at most 64 deep`() {
    let text = String(repeating: "a {", count: 65) + String(repeating: "}", count: 65)
    #expect(ParsedText(text).problems == ["1:193 blocks are nested more than 64 deep"])
    let fit = String(repeating: "a {", count: 64) + String(repeating: "}", count: 64)
    #expect(ParsedText(fit).problems.isEmpty)
  }

  @Test func `directives are at most 200000`() {
    #expect(ParsedText(String(repeating: "a;", count: 200_000)).problems.isEmpty)
    #expect(ParsedText(String(repeating: "a;", count: 200_001)).problems == ["1:400001 more than 200000 directives"])
  }

  @Test func `a file is at most 8 MiB`() {
    #expect(
      ParsedText(String(repeating: "#", count: (8 << 20) + 1)).problems == ["\"/etc/x.conf\" is larger than 8 MiB"])
  }

  @Test func `only regular files are read from disk`() {
    #expect(throws: SourceFiles.Unreadable.self) { try SourceFiles.disk.read("/dev/zero", 10).get() }
    #expect(throws: SourceFiles.Unreadable.self) { try SourceFiles.disk.read("/tmp", 10).get() }
  }
}
