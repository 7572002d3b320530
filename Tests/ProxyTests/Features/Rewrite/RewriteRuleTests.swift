import ConfigurationSupport
import Proxy
import Testing

private func http(_ lines: String) -> LoadedText {
  LoadedText("http {\n\(lines)\n server { listen 80; return 204; } }")
}

private func location(_ lines: String) -> LoadedText {
  LoadedText("http { server { listen 80; location / {\n\(lines)\n return 204; } } }")
}

@Suite struct RewriteRuleTests {
  @Test(arguments: [
    ("rewrite ^/a /b sideways;", "2:16 invalid parameter \"sideways\" | last, break, redirect or permanent"),
    ("rewrite ^/a \"\";", "2:13 empty replacement | rewrite REGEX /PATH;"),
    ("rewrite ( /b;", "2:9 invalid regular expression \"(\": missing closing parenthesis at offset 1"),
    ("rewrite ^/a /$nothing;", "2:13 unknown \"nothing\" variable"),
    ("if ($arg_a = x { return 200; }", "2:14 invalid condition \"x\" | "),
    ("if $arg_a { return 200; }", "2:4 invalid condition \"$arg_a\" | "),
    ("if () { return 200; }", "2:4 invalid condition \"\" | "),
    ("if ($arg_a eq x) { return 200; }", "2:12 unexpected \"eq\" in condition | "),
    ("if (-q /x) { return 200; }", "2:4 invalid condition \"-q\" | "),
    ("if ($arg_a$arg_b) { return 200; }", "2:4 unknown \"arg_a$arg_b\" variable | "),
    ("if ($arg_a) { if ($arg_b) { return 200; } }", "2:15 \"if\" directive is not allowed here | "),
    ("if ($arg_a) { allow all; }", "2:15 \"allow\" directive is not allowed here | "),
    (
      "if ($arg_a) { proxy_pass http://127.0.0.1/x; }",
      "2:26 \"proxy_pass\" cannot have URI part inside \"if\" statement | "
    ),
    (
      "limit_except GET { proxy_pass http://127.0.0.1/x; }",
      "2:31 \"proxy_pass\" cannot have URI part inside \"limit_except\" block | "
    ),
    ("limit_except GTE { deny all; }", "2:14 invalid method \"GTE\" | "),
    ("set $uri x;", "2:5 the duplicate \"uri\" variable | "),
    ("valid_referers none;", "2:1 the \"none\" or \"blocked\" referers are specified"),
    ("valid_referers *.a.*;", "2:16 invalid hostname or wildcard \"*.a.*\" | "),
  ])
  func `a directive of the rewrite module that can't be is told at its place`(lines: String, problem: String) {
    let problems = location(lines).errors
    #expect(problems.contains { $0.hasPrefix(problem) }, "\(problems)")
  }

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
    ("geo $g { 10.0.0.0/40 a; }", "2:10 invalid network \"10.0.0.0/40\" | "),
    ("geo $g { ranges; 10.0.0.9-10.0.0.1 a; }", "2:18 invalid range \"10.0.0.9-10.0.0.1\" | "),
    ("geo $g { 10.0.0.0/8 a; ranges; }", "2:24 the \"ranges\" directive must be the first directive"),
    ("geo $g { proxy x; }", "2:16 invalid network \"x\" | "),
    ("split_clients $uri $s { 50% a; 50.01% b; }", "2:32 percent total is greater than 100% | "),
    ("split_clients $uri $s { 0% a; }", "2:25 invalid percent value \"0%\" | "),
    ("split_clients $uri $s { 1.234% a; }", "2:25 invalid percent value \"1.234%\" | "),
    ("split_clients $uri $s { 5 a; }", "2:25 invalid percent value \"5\" | "),
  ])
  func `a computed variable that can't be is told at its place`(lines: String, problem: String) {
    let problems = http(lines).errors
    #expect(problems.contains { $0.hasPrefix(problem) }, "\(problems)")
  }

  @Test func `a chain of a hundred variables is taken, and a longer one is not`() {
    func chain(_ count: Int) -> String {
      "map $uri $v0 { a b; }" + (1..<count).map { "map $v\($0 - 1) $v\($0) { a b; }" }.joined()
    }
    #expect(http(chain(100)).errors == [])
    #expect(http(chain(101)).errors.contains { $0.contains("a chain of more than 100 variables") })
    #expect(http(chain(30_000)).errors.count > 1)
  }

  @Test func `lines of a map are texts, whatever directive has their name`() {
    let loaded = http("map $uri $m { location a; set $uri; default $uri; server b; \"\" c; \\default d; }")
    #expect(loaded.errors == [])
    guard case .map(let map)? = loaded.settings?.http.computed.values.first?.source else {
      Issue.record("no map")
      return
    }
    #expect(
      map.exact.keys.map { String(decoding: $0, as: UTF8.self) }.sorted() == [
        "", "default", "location", "server", "set",
      ])
  }
}
