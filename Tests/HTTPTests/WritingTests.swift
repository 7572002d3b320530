import Bytes
import HTTP
import Testing

@Suite struct `Writing heads` {
  func written(_ body: (inout ByteBuffer) -> Void) -> String {
    var output = ByteBuffer()
    body(&output)
    return output.readable.text
  }

  @Test func `a status line has nginx's phrase`() {
    #expect(written { HeadWriter.statusLine(200, to: &$0) } == "HTTP/1.1 200 OK\r\n")
    #expect(written { HeadWriter.statusLine(302, to: &$0) } == "HTTP/1.1 302 Moved Temporarily\r\n")
    #expect(written { HeadWriter.statusLine(599, to: &$0) } == "HTTP/1.1 599 \r\n")
  }

  @Test func `framing is announced where there is something to announce`() {
    #expect(written { HeadWriter.framing(.length(3), to: &$0) } == "Content-Length: 3\r\n")
    #expect(written { HeadWriter.framing(.chunked, to: &$0) } == "Transfer-Encoding: chunked\r\n")
    #expect(written { HeadWriter.framing(.none, to: &$0) } == "")
    #expect(written { HeadWriter.framing(.untilClose, to: &$0) } == "")
  }

  @Test func `a parsed field is written in one form, however it came`() {
    let head = RequestHead()
    _ = request("GET / HTTP/1.1\nHost:h\nX:\t y \n\n", head: head)
    let text = written { output in
      for field in head.fields { HeadWriter.forward(field, of: head.bytes.readable, to: &output) }
    }
    #expect(text == "Host: h\r\nX: y\r\n")
  }

  @Test(arguments: [("a\tb", true), ("", true), ("\u{e9}", true), ("a\r\nb", false), ("a\0", false), ("\u{7f}", false)])
  func `a value may have tabs and bytes above ASCII, and no other control character`(value: String, isTaken: Bool) {
    #expect(withBytes(value) { FieldValue.isValid($0) } == isTaken)
    #expect(FieldBlock([(Array("X".utf8), Array(value.utf8))]).isEmpty != isTaken)
  }
}
