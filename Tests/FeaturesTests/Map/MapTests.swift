import ConfigurationSupport
@testable import Features
@testable import Forward
import Testing
@testable import Traffic

@Suite struct `A map` {
  @Test(arguments: [
    ("map $uri m { a b; }", "2:10 invalid variable name \"m\" | "),
    ("map $uri $host { a b; }", "2:10 the duplicate \"host\" variable | "),
    ("map $uri $m { a; }", "2:15 invalid number of the map parameters | "),
    ("map $uri $m { a b; A c; }", "2:20 conflicting parameter \"A\" | "),
    ("map $uri $m { default a; default b; }", "2:26 duplicate default map parameter | "),
    ("map $uri $m { hostnames; *.a* b; }", "2:26 invalid hostname or wildcard \"*.a*\" | "),
    ("map $uri $m { ~( b; }", "2:15 invalid regular expression \"(\": "),
    ("map $uri $m { a $m; }", "2:10 cycle while evaluating variable \"m\" | the variables need each other: $m → $m"),
    (
      "map $uri $a { a $b; } map $b $b2 { a 1; } map $uri $b { x $b2; }",
      "2:52 cycle while evaluating variable \"b\" | the variables need each other: $b → $b2 → $b"
    ),
  ])
  func `a computed variable that can't be is told at its place`(lines: String, problem: String) {
    let problems = LoadedText.http(lines).errors
    #expect(problems.contains { $0.hasPrefix(problem) }, "\(problems)")
  }

  @Test(arguments: [
    ("a.test", "exact"), ("b.test", "[b.test]"), ("x.w.test", "[x.w.test]"), ("near.w.test", "constant"),
    ("a.b.w.test", "inner"), ("w.tail.org", "[w.tail.org]"), ("nobody", "none"),
  ])
  func `a value with variables is the one of the best match, beside constant ones`(host: String, value: String) throws {
    let rig = try Rig(
      """
      map $host $m { hostnames; default none; a.test exact; b.test [$host]; *.w.test [$host]; near.w.test constant;
        *.b.w.test inner; w.tail.* [$host]; }
      server { listen 80; return 200 $m; }
      """)
    #expect(try rig.ask(["GET / HTTP/1.1", "Host: \(host)"]).body == value)
  }

  @Test func `each kind of computed variable has what computes it while requests are served`() throws {
    let loaded = LoadedText.http(
      """
      map $uri $a { x y; } geo $b { default 0; } split_clients $uri $c { * x; } keyval_zone zone=z:32k;
      keyval $uri $d zone=z;
      """)
    let computed = try #require(loaded.settings, "\(loaded.errors)").http.computed
    #expect(computed.count == 4)
    for variable in computed.values { #expect(variable.settings is any LiveVariableSettings, "\(variable.settings)") }
  }

  @Test func `a chain of a hundred variables is taken, and a longer one is not`() {
    func chain(_ count: Int) -> String {
      "map $uri $v0 { a b; }" + (1..<count).map { "map $v\($0 - 1) $v\($0) { a b; }" }.joined()
    }
    #expect(LoadedText.http(chain(100)).errors == [])
    #expect(LoadedText.http(chain(101)).errors.contains { $0.contains("a chain of more than 100 variables") })
    #expect(LoadedText.http(chain(30_000)).errors.count > 1)
  }

  @Test func `lines of a map are texts, whatever directive has their name`() {
    let loaded = LoadedText.http("map $uri $m { location a; set $uri; default $uri; server b; \"\" c; \\default d; }")
    #expect(loaded.errors == [])
    guard let map = loaded.settings?.http.computed.values.first?.settings as? MapSettings else {
      Issue.record("no map")
      return
    }
    #expect(
      map.exact.keys.map { String(decoding: $0, as: UTF8.self) }.sorted() == [
        "", "default", "location", "server", "set",
      ])
  }
}
