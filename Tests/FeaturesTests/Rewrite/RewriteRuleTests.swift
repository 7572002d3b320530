import ConfigurationSupport
import Features
import Forward
import Testing
import Traffic

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
    ("set $uri x;", "2:5 the duplicate \"uri\" variable | "),
  ])
  func `a directive of the rewrite module that can't be is told at its place`(lines: String, problem: String) {
    let problems = LoadedText.location(lines).errors
    #expect(problems.contains { $0.hasPrefix(problem) }, "\(problems)")
  }
}
