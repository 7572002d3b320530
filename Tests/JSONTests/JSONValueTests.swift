import Testing

@testable import JSON

@Suite struct `Whole JSON texts` {
  private func read(_ text: String) throws -> JSONValue { try JSONValue(Array(text.utf8)) }

  @Test func `values are read as they are meant`() throws {
    let value = try read(#" { "a": [1, -2.5e3, true, false, null, "x\u00e9\ud83d\ude00\n"], "b": {} } "#)
    #expect(
      value
        == .object([
          "a": .array([.number("1"), .number("-2.5e3"), .bool(true), .bool(false), .null, .string("xé😀\n")]),
          "b": .object([:]),
        ]))
    #expect(value["a"]?.list?.count == 6 && value["b"]?.members?.isEmpty == true && value["c"] == nil)
    #expect(try read("12").integer == 12 && read("1.0").integer == nil && read("\"t\"").text == "t")
    #expect(try read(#"{"a":null}"#)["a"] == nil)
  }

  @Test(arguments: [
    "", " ", "{", "[", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "[1,]", "[1 2]", "{a:1}", "tru", "nul", "01", "1.", ".5",
    "+1",
    "1e", "-", "\"", "\"\\x\"", "\"\\u12\"", "\"\\ud800\"", "\"\\ud800\\u0041\"", "\"\\udc00\"", "\"\u{1}\"", "1 1",
    "{\"a\":1,\"a\":2}", "'a'", "NaN", "[1]]", "{\"a\":1}x",
  ])
  func `what is no JSON is refused`(text: String) { #expect(throws: JSONFault.self) { try read(text) } }

  @Test func `bytes that are no UTF-8 are refused`() {
    for bytes: [UInt8] in [
      [0x22, 0xFF, 0x22], [0x22, 0xC0, 0x80, 0x22], [0x22, 0xED, 0xA0, 0x80, 0x22], [0x22, 0xE2, 0x22],
    ] {
      #expect(throws: JSONFault.self) { try JSONValue(bytes) }
    }
  }

  @Test func `depth, size and number are bounded`() throws {
    #expect(throws: JSONFault.self) { try read(String(repeating: "[", count: 100_000)) }
    #expect(throws: JSONFault.self) { try read("[" + String(repeating: "1,", count: 20_000) + "1]") }
    var limits = JSONLimits()
    limits.bytes = 4
    #expect(throws: JSONFault.self) { try JSONValue(Array("12345".utf8), limits: limits) }
    #expect(try JSONValue(Array("1234".utf8), limits: limits) == .number("1234"))
    let nested = String(repeating: "[", count: 15) + String(repeating: "]", count: 15)
    _ = try read(nested)
  }
}
