import Testing

@testable import Signature

@Suite struct `Structured fields` {
  private func canonical(_ text: String) throws -> String {
    var output: [UInt8] = []
    FieldWriter.write(try FieldParser.dictionary(Array(text.utf8)), to: &output)
    return String(decoding: output, as: UTF8.self)
  }

  @Test(arguments: [
    ("", ""), ("  a=1  ", "a=1"), ("a=1 ,\tb=2", "a=1, b=2"), ("a", "a"), ("a=?1;b", "a;b"), ("a=?0", "a=?0"),
    ("a=( )", "a=()"), ("a=(  1   \"x\" );c", "a=(1 \"x\");c"),
    ("a=();b=1;  c=\"\\\"\\\\\"", "a=();b=1;c=\"\\\"\\\\\""),
    ("a=1.50", "a=1.5"), ("a=-0.001", "a=-0.001"), ("a=-12.0", "a=-12.0"), ("a=-5", "a=-5"), ("a=:AAAA:", "a=:AAAA:"),
    ("a=::", "a=::"), ("a=*x:/y", "a=*x:/y"), ("*a-_.*0=tok", "*a-_.*0=tok"),
    ("a=999999999999999", "a=999999999999999"),
  ])
  func `have one form`(text: String, form: String) throws { #expect(try canonical(text) == form) }

  @Test(arguments: [
    "a=1,", ",a=1", "a=1,,b=2", "a=1 b=2", "A=1", "1a=1", "=1", "a=", "a= 1", "a =1", "a=(1", "a=(1)2", "a=(1(2))",
    "a=(1\t2)", "a=(1\"x\")", "a=\"x", "a=\"\\x\"", "a=\"\u{E9}\"", "a=\"\n\"", "a=:AAA:", "a=:AAAA", "a=:AAAB=:",
    "a=:A AA:",
    "a=:_-AA:", "a=?2", "a=?", "a=1.", "a=.5", "a=--1", "a=1.2345", "a=1234567890123.1", "a=1234567890123456", "a=@1",
    "a=%\"x\"", "a=1;B", "a=1;=2", "a=1;b=", "a=1;;b", "a\u{0}=1", "a=1\u{0}", "\ta=1", "a=1\t", "a=1;\tb",
  ])
  func `are refused in every other form`(text: String) { #expect(throws: FieldError.self) { try canonical(text) } }

  @Test(arguments: ["a=1, a=2", "a=(1 2), b, a", "a=1;x;x=2", "a=(\"x\";y;y)"])
  func `have no key twice`(text: String) {
    #expect(throws: FieldError.doubled([text.hasPrefix("a=1;") ? 0x78 : text.contains("y") ? 0x79 : 0x61])) {
      try canonical(text)
    }
  }

  @Test func `have bounds`() throws {
    let many = (0..<65).map { "a\($0)=1" }
    #expect(try canonical(many.dropLast().joined(separator: ", ")).hasPrefix("a0=1"))
    #expect(throws: FieldError.tooMany) { try canonical(many.joined(separator: ", ")) }
    let items = String(repeating: "1 ", count: 65)
    #expect(throws: FieldError.tooMany) { try canonical("a=(\(items))") }
    let parameters = (0..<17).map { ";p\($0)" }.joined()
    #expect(throws: FieldError.tooMany) { try canonical("a=1\(parameters)") }
    #expect(throws: FieldError.tooLong) { try canonical("a=\"\(String(repeating: "x", count: 64 * 1024))\"") }
    #expect(try canonical("a=\"\(String(repeating: "x", count: 32_000))\"").utf8.count == 32_004)
  }
}

@Suite struct `Components` {
  private func value(_ word: String, _ message: SignedMessage) throws -> String {
    String(decoding: try message.value(of: Component(parsing: word)), as: UTF8.self)
  }

  /// RFC 9421 §2.1, §2.2.
  @Test func `have the values of the RFC's examples`() throws {
    let message = RFCExample.message(
      "POST", "/path?param=value&foo=bar&baz=batman&qux=",
      [
        ("Host", "www.example.com"), ("Cache-Control", "max-age=60"), ("Cache-Control", "must-revalidate"),
        ("Example-Dict", "a=1,    b=2;x=1;y=2,   c=(a   b   c), d"), ("Example-Header", "value, with, lots"),
        ("Example-Header", "of, commas"), ("Priority", "u=1 ,  i"), ("X-Empty", ""),
      ], authority: "WWW.example.com:443")
    let expected = [
      "@method": "POST", "@target-uri": "https://www.example.com/path?param=value&foo=bar&baz=batman&qux=",
      "@authority": "www.example.com", "@scheme": "https",
      "@request-target": "/path?param=value&foo=bar&baz=batman&qux=", "@path": "/path",
      "@query": "?param=value&foo=bar&baz=batman&qux=", "@query-param;name=\"baz\"": "batman",
      "@query-param;name=\"qux\"": "", "cache-control": "max-age=60, must-revalidate", "x-empty": "",
      "example-dict;key=\"a\"": "1", "example-dict;key=\"b\"": "2;x=1;y=2", "example-dict;key=\"c\"": "(a b c)",
      "example-dict;key=\"d\"": "?1", "priority;sf": "u=1, i",
      "example-header;bs": ":dmFsdWUsIHdpdGgsIGxvdHM=:, :b2YsIGNvbW1hcw==:",
    ]
    for (word, wanted) in expected { #expect(try value(word, message) == wanted, "\(word)") }
  }

  @Test func `of the query are decoded and encoded anew`() throws {
    let message = RFCExample.message(
      "GET",
      "/parameters?var=this%20is%20a%20big%0Amultiline%20value&bar=with+plus+whitespace&fa%C3%A7ade%22%3A%20=something&two=1&two=2&x%79=%zz&&bare",
      [])
    #expect(try value("@query-param;name=\"var\"", message) == "this%20is%20a%20big%0Amultiline%20value")
    #expect(try value("@query-param;name=\"bar\"", message) == "with%20plus%20whitespace")
    #expect(try value("@query-param;name=\"fa%C3%A7ade%22%3A%20\"", message) == "something")
    #expect(try value("@query-param;name=\"xy\"", message) == "%25zz")
    #expect(try value("@query-param;name=\"bare\"", message) == "")
    #expect(throws: ComponentError.repeated("\"@query-param\";name=\"two\"")) {
      try value("@query-param;name=\"two\"", message)
    }
    #expect(throws: ComponentError.absent("\"@query-param\";name=\"none\"")) {
      try value("@query-param;name=\"none\"", message)
    }
  }

  @Test func `without a query or a path have their defaults`() throws {
    let message = RFCExample.message("GET", "/", [], authority: "a.test:8443")
    #expect(try value("@query", message) == "?")
    #expect(try value("@target-uri", message) == "https://a.test:8443/")
    #expect(throws: ComponentError.absent("\"@authority\"")) {
      try value("@authority", RFCExample.message("GET", "/", [], authority: ""))
    }
  }

  @Test func `with bytes that no base may have are refused, but not as byte sequences`() throws {
    for bad in ["caf\u{E9}", "a\u{7F}", "a\u{1}"] {
      let message = RFCExample.message("GET", "/", [("X", bad)])
      #expect(throws: ComponentError.value("\"x\"")) { try value("x", message) }
      #expect(try value("x;bs", message).hasPrefix(":"))
    }
  }

  @Test(arguments: [
    "@status", "@unknown", "@signature-params", "Date", "", "da te", "@query-param", "@query-param;name=1", "date;tr",
    "date;req", "@method;req", "date;x", "date;sf=1", "date;bs;sf", "date;bs;key=\"a\"", "date;key=1", "\"date",
    "@path;name=\"x\"",
  ])
  func `that make no sense for a request are refused by name`(word: String) {
    #expect(throws: ComponentError.self) { try Component(parsing: word) }
  }

  @Test func `are the same whatever the order of their parameters`() throws {
    let (one, other) = (try Component(parsing: "a;sf;key=\"b\""), try Component(parsing: "a;key=\"b\";sf"))
    #expect(one == other)
    let (binary, plain) = (try Component(parsing: "a;bs"), try Component(parsing: "a"))
    #expect(binary != plain)
  }
}
