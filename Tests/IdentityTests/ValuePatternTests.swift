import Testing

@testable import Identity

@Suite struct `Patterns of values` {
  @Test(arguments: [
    // Text is itself, with case, whole.
    ("alice", "alice", true), ("alice", "Alice", false), ("alice", "alices", false), ("alice", "malice", false),
    ("alice", "", false),
    // * is one label: it crosses none of . / @ :
    ("*", "alice", true), ("*", "a.b", false), ("*", "a/b", false), ("*", "a@b", false), ("*", "a:b", false),
    ("*", "a-b_c d,e=f", true), ("*", "", false),
    ("*.example.com", "www.example.com", true), ("*.example.com", "a.b.example.com", false),
    ("*.example.com", ".example.com", false), ("*.example.com", "example.com", false),
    ("*@example.com", "bob@example.com", true), ("*@example.com", "b@c@example.com", false),
    ("spiffe://prod/ns/*/sa/api", "spiffe://prod/ns/a/sa/api", true),
    ("spiffe://prod/ns/*/sa/api", "spiffe://prod/ns/a/b/sa/api", false),
    ("spiffe://prod/ns/*/sa/api", "spiffe://prod/ns//sa/api", false),
    ("spiffe://prod/ns/*/sa/api", "spiffe://prod/ns/a/sa/api2", false),
    // Beside other text it may be nothing.
    ("web*", "web", true), ("web*", "web1", true), ("web*", "web.1", false), ("*web*", "aweb", true),
    ("a*b*c", "abc", true), ("a*b*c", "axxbyyc", true), ("a*b*c", "axxbyy", false), ("a*b*c", "a.bc", false),
    // ** is many.
    ("**", "a.b/c@d:e", true), ("**", "", false), ("**.example.com", "a.b.example.com", true),
    ("**.example.com", ".example.com", false), ("**.example.com", "aexample.com", false),
    ("spiffe://prod/**", "spiffe://prod/ns/a", true), ("spiffe://prod/**", "spiffe://prod/", false),
    ("spiffe://prod/**", "spiffe://production/a", false), ("spiffe://prod/**/api", "spiffe://prod/a/b/api", true),
    ("a**", "a", true), ("**a", "x.a", true), ("*.**", "a.b.c", true), ("*.**", "a", false),
    // A value's own asterisk is text.
    ("*.example.com", "*.example.com", true), ("x.example.com", "*.example.com", false),
  ])
  func `a pattern is the whole value`(pattern: String, value: String, matches: Bool) throws {
    let parsed = try #require(ValuePattern(Array(pattern.utf8)))
    #expect(parsed.matches(Array(value.utf8)) == matches)
  }

  @Test(arguments: ["***", "a***b", "****"]) func `three asterisks mean nothing`(pattern: String) {
    #expect(ValuePattern(Array(pattern.utf8)) == nil)
  }

  @Test func `many wildcards against a long value take no time to speak of`() throws {
    let pattern = try #require(ValuePattern(Array((String(repeating: "*a", count: 40) + "b").utf8)))
    #expect(!pattern.matches([UInt8](repeating: UInt8(ascii: "a"), count: 20_000)))
  }
}
