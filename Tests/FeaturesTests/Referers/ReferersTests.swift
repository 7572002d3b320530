import ConfigurationSupport
@testable import Features
@testable import Forward
import Testing
@testable import Traffic

@Suite struct `Referers that are valid` {
  @Test(
    arguments: [
      (nil, ""), ("http://s.test/x", ""), ("https://S.TEST:8443/", ""), ("http://a.example.com/", ""),
      ("http://example.com/", "1"), ("http://good.test/in/x", ""), ("http://good.test:80/in", ""),
      ("http://good.test/out", "1"), ("http://www.pattern.org/", ""), ("http://other.test/", "1"),
      ("ftp://other.test/", ""), ("-", ""), ("http://other.test/?http://s.test/", "1"), ("http://s.test.other/", "1"),
    ] as [(String?, String)])
  func `are those of the listed names, and without a scheme those that something blocked`(
    referer: String?, invalid: String
  ) throws {
    let rig = try Rig(
      #"""
      server { listen 80; server_name s.test; location / {
        valid_referers none blocked server_names *.example.com good.test/in "~\.pattern\."; return 200 "[$invalid_referer]"; } }
      """#)
    let client = try rig.ask(["GET / HTTP/1.1", "Host: s.test"] + (referer.map { ["Referer: \($0)"] } ?? []))
    #expect(client.body == "[\(invalid)]")
  }

  @Test func `are no others where none and blocked are not listed`() throws {
    let rig = try Rig(
      "server { listen 80; location / { valid_referers good.test; return 200 \"[$invalid_referer]\"; } }")
    for (lines, invalid) in [([], "1"), (["Referer: -"], "1"), (["Referer: http://good.test/"], "")] {
      #expect(try rig.ask(["GET / HTTP/1.1", "Host: h"] + lines).body == "[\(invalid)]")
    }
  }

  @Test(arguments: [
    ("valid_referers none;", "2:1 the \"none\" or \"blocked\" referers are specified"),
    ("valid_referers *.a.*;", "2:16 invalid hostname or wildcard \"*.a.*\" | "),
  ])
  func `what can't be meant is told at its place`(lines: String, problem: String) {
    let problems = LoadedText.location(lines).errors
    #expect(problems.contains { $0.hasPrefix(problem) }, "\(problems)")
  }
}
