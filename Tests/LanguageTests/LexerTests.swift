import ConfigurationSupport
import Observability
import Testing

@testable import Language

@Suite struct LexerTests {
  @Test func `blanks of every kind separate words and a semicolon ends the statement`() {
    #expect(ParsedText("a\tb \r\n c;").words == ["a", "b", "c"])
  }

  @Test func `words know their line and column`() {
    let directive = ParsedText("x;\n  listen\t443 \n   ssl;").directives[1]
    #expect(directive.location == SourceLocation(file: "/etc/x.conf", line: 2, column: 3))
    #expect(directive.arguments.map { "\($0.location.line):\($0.location.column)" } == ["2:10", "3:4"])
  }

  @Test(arguments: [
    (#"a "b c" 'd;e{';"#, ["a", "b c", "d;e{"]), (#"a "\"x\'" 'it\'s';"#, ["a", "\"x'", "it's"]),
    (#"a "" '';"#, ["a", "", ""]), (#"a "\t\r\n";"#, ["a", "\t\r\n"]),
    (#"a \.jpg$ x\ y;"#, ["a", #"\.jpg$"#, #"x\ y"#]),
    (#"a \\d "\\";"#, ["a", #"\d"#, #"\"#]), (#"a b"c"d;"#, ["a", "b\"c\"d"]), (#"a b}c;"#, ["a", "b}c"]),
    ("a b#c;", ["a", "b#c"]), ("a # b\n c;", ["a", "c"]), ("a ${host}x$b;", ["a", "${host}x$b"]),
    (#"a "(b)";"#, ["a", "(b)"]), (#"if ($a = "b");"#, ["if", "($a", "=", "b", ")"]),
  ])
  func `quotes, escapes, comments and variables are read as nginx reads them`(text: String, words: [String]) {
    #expect(ParsedText(text).words == words)
    #expect(ParsedText(text).problems.isEmpty)
  }

  @Test func `an unquoted brace in a regular expression opens a block, a quoted one does not`() {
    let bare = ParsedText("location ~ ^/a{2} { }")
    #expect(bare.directives.first?.arguments.map(\.text) == ["~", "^/a"])
    let quoted = ParsedText("location ~ '^/a{2}' { }")
    #expect(quoted.directives.first?.arguments.map(\.text) == ["~", "^/a{2}"])
    #expect(quoted.directives.first?.arguments.map(\.quoted) == [false, true])
  }

  @Test(arguments: [
    ("a 'b", "1:3 unexpected end of file: the quote opened here is never closed | add the missing '"),
    (
      "a;\nb c",
      "2:4 unexpected end of file, expecting \";\" or \"}\" | the statement \"b\" that begins in line 2 is not ended"
    ),
    ("a { b;", "1:7 unexpected end of file, expecting \"}\" | the block of \"a\" that begins in line 1 is not closed"),
    ("a; }", "1:4 unexpected \"}\" | no block is open here"),
    ("a { b }", "1:7 unexpected \"}\" | the statement \"b\" before it lacks its \";\""),
    (";", "1:1 unexpected \";\""), ("{}", "1:1 unexpected \"{\""),
    ("a \"b\"c;", "1:6 unexpected \"c\" | after a closing quote comes a blank, \";\" or \"{\""),
    ("\u{FEFF}a;", "1:1 the file begins with a byte order mark | save it as UTF-8 without one"),
    ("a \u{0};", "1:3 this word contains a NUL byte | is this a text file?"),
  ])
  func `a lexical fault names its place`(text: String, problem: String) {
    #expect(ParsedText(text).problems == [problem])
  }

  @Test func `a word that is not UTF-8 is refused, a comment may be anything`() {
    var parser = Parser(mainFile: "x", files: .none)
    _ = parser.parse(bytes: [0x23, 0xE9, 0x0A] + Array("a ".utf8) + [0xE9, 0x3B], path: "x")
    #expect(parser.diagnostics.map(short) == ["2:3 this word is not UTF-8 | save the file as UTF-8"])
  }
}
