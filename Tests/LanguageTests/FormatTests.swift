import TestSupport
import ConfigurationSupport
import Testing

@testable import Language

@Suite struct FormatTests {
  private static let texts: [(String, String)] = [
    ("", ""),
    ("\n\n  \n", ""),
    ("a b;c d;", "a b;\nc d;\n"),
    ("  a\tb   c ;", "a b c;\n"),
    ("events{}", "events {}\n"),
    ("events {\n\n}", "events {}\n"),
    ("http{server{listen 80;}}", "http {\n    server {\n        listen 80;\n    }\n}\n"),
    ("# one\na b; # two\n# three", "# one\na b; # two\n# three\n"),
    ("server { # s\n# own\n listen 80; } # end", "server { # s\n    # own\n    listen 80;\n} # end\n"),
    ("a b;\n\n\n\nc d;\n", "a b;\n\nc d;\n"),
    ("s {\n\n\n a b;\n\n\n}\n\n", "s {\n    a b;\n}\n"),
    ("a 'b  c' \"d\\\"e\" f\\ g $h${i};", "a 'b  c' \"d\\\"e\" f\\ g $h${i};\n"),
    ("log_format f 'a'\n  'b'\n\n   'c';", "log_format f 'a'\n    'b'\n    'c';\n"),
    ("if ($a = \"b\"){ return 1; }", "if ($a = \"b\") {\n    return 1;\n}\n"),
    ("a # why\n b;", "a # why\n    b;\n"),
    ("a b # why\n;", "a b # why\n    ;\n"),
    ("s # why\n{ a; }", "s # why\n{\n    a;\n}\n"),
    ("a b\n;", "a b;\n"),
    ("server\n{\nlisten 80;\n}", "server {\n    listen 80;\n}\n"),
    ("a b;\r\n# c \r\nd e;\r\n", "a b;\n# c\nd e;\n"),
    ("a \"x\r\ny\";", "a \"x\r\ny\";\n"),
    ("s { } # e", "s {} # e\n"),
    ("location ~ \\.php$ { a; }", "location ~ \\.php$ {\n    a;\n}\n"),
    (
      "a b",
      "refused: 1:4 unexpected end of file, expecting \";\" or \"}\" | the statement \"a\" that begins in line 1 is not ended"
    ),
    (
      "a { b;",
      "refused: 1:7 unexpected end of file, expecting \"}\" | the block of \"a\" that begins in line 1 is not closed"
    ),
    ("}", "refused: 1:1 unexpected \"}\" | no block is open here"),
    ("a 'b", "refused: 1:3 unexpected end of file: the quote opened here is never closed | add the missing '"),
  ]

  private func format(_ text: String) throws -> String {
    do {
      return String(decoding: try ConfigurationFormat.format(Array(text.utf8), file: "x.conf"), as: UTF8.self)
    } catch {
      return "refused: \(short(error.diagnostic))"
    }
  }

  @Test(arguments: Self.texts)
  func `text is indented, and nothing of it is lost`(text: String, formatted: String) throws {
    #expect(try format(text) == formatted)
    if !formatted.hasPrefix("refused") { #expect(try format(formatted) == formatted) }
  }

  /// Random texts of the bytes that mean something to the lexer.
  @Test func `what can be read means the same after formatting, and formatting again changes nothing`() throws {
    var generator = SystemRandomNumberGenerator()
    let parts = [
      "a", "b ", " ", ";", "{", "}", "#", "\n", "\r\n", "\"", "'", "\\", "$", "${", ")", "x y;", "s {", "# c\n", "\t",
      "é",
    ]
    var read = 0
    for _ in 0..<20_000 {
      let count = Int.random(in: 0...12, using: &generator)
      let text = (0..<count).map { _ in parts.randomElement(using: &generator) ?? "" }.joined()
      read += try holds(Array(text.utf8)) ? 1 : 0
    }
    #expect(read > 500)
  }

  @Test(arguments: fuzzedConfigurations)
  func `a configuration once fuzzed is formatted or refused`(path: String) throws {
    let bytes = try SourceFiles.disk.read(path, 1 << 20).get()
    for part in bytes.split(separator: 0xFF) { _ = try holds(Array(part)) }
  }

  @Test(arguments: ["full", "legacy-backend", "nginx-block", "sidecar"])
  func `the shipped configurations can be formatted`(name: String) throws {
    #expect(try holds(SourceFiles.disk.read("\(checkout)/config/\(name).conf", 1 << 20).get()))
  }

  /// Whether the text was formatted. Then the result is stable, and parses to the same directives.
  private func holds(_ bytes: [UInt8]) throws -> Bool {
    guard let once = try? ConfigurationFormat.format(bytes, file: "x.conf") else { return false }
    let text = String(decoding: bytes, as: UTF8.self)
    #expect(try ConfigurationFormat.format(once, file: "x.conf") == once, "\(text.debugDescription)")
    #expect(shape(bytes) == shape(once), "\(text.debugDescription)")
    return true
  }

  /// The directives without their places.
  private func shape(_ bytes: [UInt8]) -> [String] {
    func words(_ directive: Directive) -> [String] {
      var all = [directive.name]
      for word in directive.arguments { all.append("\(word.quoted) \(word.text)") }
      guard let block = directive.block else { return all + [";"] }
      for inner in block { all += words(inner) }
      return all + ["}"]
    }
    var parser = Parser(mainFile: "x.conf", files: .none)
    return parser.parse(bytes: bytes, path: "x.conf").flatMap { words($0) }
  }
}

@Suite struct DumpTests {
  @Test func `each file is dumped once, in the order in which it is read`() {
    let files = ["/etc/x.conf": "a;\ninclude b.conf;\ninclude b.conf;\n", "/etc/b.conf": "c; # d"]
    let dump = ConfigurationDump(.file("/etc/x.conf"), files: memory(files))
    #expect(
      String(decoding: dump.text, as: UTF8.self)
        == "# configuration file /etc/x.conf:\na;\ninclude b.conf;\ninclude b.conf;\n\n# configuration file /etc/b.conf:\nc; # d\n"
    )
  }

  @Test(arguments: [
    ("proxy_set_header Authorization \"Basic YTpi\";", "proxy_set_header Authorization ********;"),
    ("proxy_set_header \"authorization\" Basic;", "proxy_set_header \"authorization\" ********;"),
    ("grpc_set_header X-Api-Key k; a;", "grpc_set_header X-Api-Key ********; a;"),
    ("proxy_set_header Authorization $http_authorization;", "proxy_set_header Authorization $http_authorization;"),
    ("proxy_set_header X-Client b;", "proxy_set_header X-Client b;"),
    (
      "ssl_certificate_key \"engine:pkcs11:pkcs11:object=k;pin-value=1234;type=private\";",
      "ssl_certificate_key \"engine:pkcs11:pkcs11:object=k;pin-value=********;type=private\";"
    ),
    (
      "ssl_certificate_key 'store:pkcs11:object=k?pin-value=12';",
      "ssl_certificate_key 'store:pkcs11:object=k?pin-value=********';"
    ),
    (
      "ssl_certificate_key engine:pkcs11:a?pin-value=12&b=pin-value=3;",
      "ssl_certificate_key engine:pkcs11:a?pin-value=********&b=pin-value=********;"
    ),
    (
      "map $a $key { b \"-----BEGIN EC PRIVATE KEY-----\n\(String(repeating: "A", count: 99))\"; c d; }",
      "map $a $key { b ********; c d; }"
    ),
  ])
  func `secrets in the text are masked`(text: String, masked: String) {
    #expect(String(decoding: ConfigurationDump.masked(Array(text.utf8), "x.conf"), as: UTF8.self) == masked)
  }
}
