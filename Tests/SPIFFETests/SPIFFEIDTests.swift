import SPIFFE
import Testing

@Suite struct `SPIFFE IDs` {
  @Test(arguments: [
    "spiffe://example.org", "spiffe://example.org/web", "spiffe://prod.acme-1_a/ns/x/sa/Y.z-_1",
    "spiffe://1/a", "spiffe://example.org/...",
  ])
  func `that are valid are read and written the same`(text: String) throws {
    #expect(try SPIFFEID(parsing: text).description == text)
  }

  @Test(arguments: [
    "", "spiffe:", "spiffe://", "spiffe:///web", "SPIFFE://example.org/web", "https://example.org/web",
    "spiffe://Example.org/web", "spiffe://example.org/", "spiffe://example.org/a/", "spiffe://example.org//a",
    "spiffe://example.org/.", "spiffe://example.org/a/../b", "spiffe://example.org/a%2Fb", "spiffe://example.org/ä",
    "spiffe://user@example.org/a", "spiffe://example.org:8443/a", "spiffe://example.org/a?b",
    "spiffe://example.org/a#b",
    "spiffe://example.org/a b", "spiffe://example.org/a\u{0}", " spiffe://example.org/a", "spiffe://exa mple.org/a",
    "spiffe://*/a", "spiffe://example.org/*",
  ])
  func `that another reader might take for other ones are refused`(text: String) {
    #expect(throws: SPIFFEIDError.self) { try SPIFFEID(parsing: text) }
  }

  @Test func `have a bounded length`() throws {
    let domain = "spiffe://" + String(repeating: "a", count: 255)
    #expect(throws: Never.self) { try SPIFFEID(parsing: domain) }
    #expect(throws: SPIFFEIDError.self) { try SPIFFEID(parsing: domain + "a") }
    let longest = "spiffe://a/" + String(repeating: "b", count: 2048 - 11)
    #expect(throws: Never.self) { try SPIFFEID(parsing: longest) }
    #expect(throws: SPIFFEIDError.self) { try SPIFFEID(parsing: longest + "b") }
  }

  @Test(arguments: [
    ("spiffe://a/web", "spiffe://a/web", true), ("spiffe://a/web", "spiffe://a/web2", false),
    ("spiffe://a/web", "spiffe://b/web", false), ("spiffe://a/web", "spiffe://a/web/x", false),
    ("spiffe://a/ns/*/sa/web", "spiffe://a/ns/prod/sa/web", true),
    ("spiffe://a/ns/*/sa/web", "spiffe://a/ns/prod/x/sa/web", false),
    ("spiffe://a/ns/*/sa/web", "spiffe://a/ns/sa/web", false), ("spiffe://a/*", "spiffe://a", false),
    ("spiffe://a/**", "spiffe://a/x", true), ("spiffe://a/**", "spiffe://a/x/y/z", true),
    ("spiffe://a/**", "spiffe://a", false), ("spiffe://a/ns/**", "spiffe://a/ns", false),
    ("spiffe://a/ns/**", "spiffe://a/nsx/y", false), ("spiffe://a/**", "spiffe://b/x", false),
  ])
  func `match patterns segment by segment`(pattern: String, id: String, matches: Bool) throws {
    #expect(try SPIFFEIDPattern(parsing: pattern).matches(SPIFFEID(parsing: id)) == matches)
  }

  @Test(arguments: ["spiffe://*/web", "spiffe://a", "spiffe://a/", "spiffe://a/**/b", "spiffe://a/w*b", "web", ""])
  func `have no pattern that leaves the trust domain open or is hard to read`(text: String) {
    #expect(throws: SPIFFEIDError.self) { try SPIFFEIDPattern(parsing: text) }
  }
}
