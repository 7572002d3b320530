import Bytes
import HTTP
import Testing

@Suite struct `A request head that is made` {
  private let incoming = RequestHead()

  /// The lines of the encoded head.
  private func encoded(_ text: String, _ make: (OutgoingRequestHead) -> Void) -> [String] {
    _ = request(text, head: incoming)
    let outgoing = OutgoingRequestHead()
    outgoing.reset(over: incoming)
    make(outgoing)
    var output = ByteBuffer()
    HTTP1Encoder.request(outgoing, .http11, to: &output)
    let whole = String(decoding: output.readable, as: UTF8.self)
    #expect(whole.hasSuffix("\r\n\r\n"))
    return whole.dropLast(2).split(separator: "\r\n", omittingEmptySubsequences: false).map(String.init)
  }

  private static let plain = "GET /a?b HTTP/1.1\r\nHost: h\r\nX-One:1\r\nX-Two: 2\r\nX-Three: 3\r\n\r\n"

  @Test func `is the incoming one's line and nothing else, until more is said`() {
    #expect(encoded(Self.plain) { _ in } == ["GET /a?b HTTP/1.1"])
  }

  @Test func `has own and forwarded fields in the order in which they came`() {
    let block = FieldBlock([(Array("B".utf8), Array("2".utf8))], after: FieldBlock("A", "1"))
    let lines = encoded(Self.plain) { head in
      head.add(block)
      head.forward(incoming.fields[1])
      #expect(withBytes("own") { head.add("C", $0) })
      head.add(block)
      head.forward(incoming.fields[2])
      head.forward(incoming.fields[3])
      head.framing = .length(7)
    }
    #expect(
      lines == [
        "GET /a?b HTTP/1.1", "A: 1", "B: 2", "X-One: 1", "C: own", "A: 1", "B: 2", "X-Two: 2", "X-Three: 3",
        "Content-Length: 7",
      ])
  }

  @Test func `takes a method, a target and fields at any time, in any order`() {
    let lines = encoded(Self.plain) { head in
      #expect(withBytes("x") { head.add("A", $0) })
      #expect(head.setMethod("HEAD"))
      #expect(withBytes("y") { head.add("B", $0) })
      #expect(withBytes("/other") { head.setTarget($0) })
      #expect(withBytes("z") { head.add("C", $0) })
    }
    #expect(lines == ["HEAD /other HTTP/1.1", "A: x", "B: y", "C: z"])
  }

  @Test func `has a field that was begun and ended, and none that was dropped`() {
    let lines = encoded(Self.plain) { head in
      withBytes("A: ") { head.beginField($0) }
      head.value.append("1")
      head.endField()
      withBytes("B: ") { head.beginField($0) }
      head.value.append("2")
      head.dropField()
      withBytes("C: ") { head.beginField($0) }
      head.endField()
    }
    #expect(lines == ["GET /a?b HTTP/1.1", "A: 1", "C: "])
  }

  @Test(arguments: ["", "a\r\nb", "a\u{0}", "a\nb"])
  func `refuses what would break a line`(value: String) {
    let lines = encoded(Self.plain) { head in
      #expect(withBytes("a b") { head.add($0, $0) } == false)
      #expect(withBytes(value) { head.add("A", $0) } == value.isEmpty)
      #expect(withBytes(value) { name in withBytes("v") { head.add(name, $0) } } == false)
      #expect(withBytes(value) { head.setMethod($0) } == false)
      #expect(withBytes(value) { head.setTarget($0) } == false)
    }
    #expect(lines == (value.isEmpty ? ["GET /a?b HTTP/1.1", "A: "] : ["GET /a?b HTTP/1.1"]))
  }

  @Test(arguments: [true, false])
  func `forgets everything for the next request`(wipes: Bool) {
    let lines = encoded(Self.plain) { head in
      #expect(head.setMethod("PUT") && withBytes("/x") { head.setTarget($0) })
      #expect(withBytes("secret") { head.add("Authorization", $0) })
      head.framing = .chunked
      head.upgrade = [0x78]
      wipes ? head.wipe() : head.reset(over: incoming)
      #expect(head.upgrade.isEmpty)
    }
    #expect(lines == ["GET /a?b HTTP/1.1"])
  }
}
