import Testing

@testable import Conversion

@Suite struct `The YAML of compose files` {
  private func read(_ text: String) throws -> YAMLNode { try YAMLReader.read(text) }

  private struct NotRead: Error {}

  @Test func `mappings, sequences, quotes, brackets and comments are read`() throws {
    let node = try read(
      """
      ---
      # a comment
      services:
        "web":   # another
          image: example.com/web:1.0 # a third
          command: ["a b", c, {d: e, 'f': "g,h"}]
          ports:
          - "80:80"
          - target: 443
            published: 8443
          -
            - deep
          environment:
            URL: http://api:8080/#x
            EMPTY:
            TEXT: 'it''s'
          script: |
            key: no key
              indented

            more
          last: {}
      """)
    let web = try #require(node["services"]?["web"])
    #expect(web["image"]?.text == "example.com/web:1.0" && web.line == 5)
    guard case .sequence(let command)? = web["command"]?.value else { throw NotRead() }
    #expect(command[0].text == "a b" && command[1].text == "c" && command[2]["f"]?.text == "g,h")
    guard case .sequence(let ports)? = web["ports"]?.value else { throw NotRead() }
    #expect(ports[0].text == "80:80" && ports[1]["published"]?.text == "8443")
    #expect(ports[2].value == .sequence([YAMLNode(value: .scalar("deep"), line: 12)]))
    #expect(web["environment"]?["URL"]?.text == "http://api:8080/#x")
    #expect(web["environment"]?["EMPTY"]?.value == .empty && web["environment"]?["TEXT"]?.text == "it's")
    #expect(web["script"]?.text?.contains("key: no key") == true && web["last"]?.entries?.isEmpty == true)
  }

  @Test(arguments: [
    ("a: &x b", 1, "an anchor"), ("a: b\nc: *x", 2, "an alias"), ("a: !override b", 1, "a tag"),
    ("a:\n\tb: c", 2, "a tab"), ("a: b\n---\nc: d", 2, "second document"), ("a: 1\na: 2", 2, "twice"),
    ("a: {b: 1, b: 2}", 1, "twice"), ("<<: x", 1, "merge key"), ("a: [b,\n  c]", 1, "isn't closed"),
    ("a: \"b", 1, "isn't closed"), ("a: b\n   c\n", 2, "no key"), ("a: \"b\" c", 1, "stands behind"),
    ("- a\nb: c", 2, "doesn't belong"), ("? a\n: b", 1, "key over several lines"), ("a: [b]]", 1, "stands behind"),
  ])
  func `what is outside of it is refused with its line`(text: String, line: Int, words: String) {
    let fault = #expect(throws: ComposeFault.self) { try read(text) }
    #expect(fault?.line == line && fault?.message.contains(words) == true, "\(String(describing: fault))")
  }

  @Test func `depth and size have limits, and no bytes trap`() {
    let deep = (0..<200).map { String(repeating: " ", count: $0) + "a:" }.joined(separator: "\n")
    #expect(throws: ComposeFault.self) { try read(deep) }
    #expect(throws: ComposeFault.self) { try read("a: " + String(repeating: "[", count: 5000)) }
    #expect(throws: ComposeFault.self) { try read(String(repeating: "a", count: 2 << 20)) }
    let pieces = ["a", ":", " ", "\n", "-", "[", "]", "{", "}", "\"", "'", "#", "|", "\\", ",", "&", "\t", "é", "  "]
    for _ in 0..<3000 {
      let text = (0..<Int.random(in: 0..<30)).map { _ in pieces.randomElement() ?? "" }
      _ = try? read(text.joined())
    }
  }
}
