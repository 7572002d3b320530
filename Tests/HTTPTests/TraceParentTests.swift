import HTTP
import Testing

@Suite struct `The field traceparent` {
  private static let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

  private func parse(_ text: String) -> TraceParent? { Array(text.utf8).withUnsafeBytes { TraceParent($0) } }

  @Test func `a valid value is read and written again`() throws {
    let parent = try #require(parse(Self.good))
    #expect(String(decoding: parent.traceID, as: UTF8.self) == "4bf92f3577b34da6a3ce929d0e0e4736")
    #expect(String(decoding: parent.parentID, as: UTF8.self) == "00f067aa0ba902b7")
    #expect(parent.isSampled)
    #expect(String(decoding: parent.value, as: UTF8.self) == Self.good)
  }

  @Test func `flags that version 00 does not define are not passed on`() throws {
    let parent = try #require(parse(Self.good.dropLast(2) + "ff"))
    #expect(parent.isSampled)
    #expect(String(decoding: parent.value, as: UTF8.self) == Self.good)
    #expect(parse(Self.good.dropLast(2) + "02")?.isSampled == false)
  }

  @Test func `what a later version adds is ignored`() {
    #expect(parse("01" + Self.good.dropFirst(2)) != nil)
    #expect(parse("cc" + Self.good.dropFirst(2) + "-what-comes") != nil)
    #expect(parse("cc" + Self.good.dropFirst(2) + "what-comes") == nil)
    #expect(parse("00" + Self.good.dropFirst(2) + "-what-comes") == nil)
    #expect(parse("cc" + Self.good.dropFirst(2) + "-what-comes, " + Self.good) == nil, "two fields")
  }

  @Test(arguments: [
    "", "00", "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
    "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
    "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
    "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
    "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0g",
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 ",
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01, 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
  ])
  func `a value that must be ignored is`(text: String) { #expect(parse(text) == nil) }

  @Test func `a trace goes on with another span, and a new one has identifiers of its own`() throws {
    let former = try #require(parse(Self.good.dropLast(2) + "00"))
    let (trace, span) = (Array(String(repeating: "a", count: 32).utf8), Array(String(repeating: "b", count: 16).utf8))
    let next = TraceParent(continuing: former, trace: trace, span: span)
    #expect(
      String(decoding: next.value, as: UTF8.self) == "00-4bf92f3577b34da6a3ce929d0e0e4736-bbbbbbbbbbbbbbbb-00")
    let new = TraceParent(continuing: nil, trace: trace, span: span)
    #expect(
      String(decoding: new.value, as: UTF8.self) == "00-\(String(repeating: "a", count: 32))-bbbbbbbbbbbbbbbb-01")
  }
}
