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

  @Test func `a parsed head is rebuilt`() {
    let head = RequestHead()
    _ = request("GET /a?b HTTP/1.1\nHost:h\nX:\t y \n\n", head: head)
    let text = written { output in
      let bytes = head.bytes.readable
      #expect(
        HeadWriter.requestLine(method: bytes[head.methodRange], target: bytes[head.target.raw], to: &output))
      for field in head.fields { HeadWriter.forward(field, of: bytes, to: &output) }
      HeadWriter.framing(.length(3), to: &output)
      HeadWriter.framing(.chunked, to: &output)
      HeadWriter.framing(.none, to: &output)
      HeadWriter.end(to: &output)
    }
    #expect(
      text == "GET /a?b HTTP/1.1\r\nHost: h\r\nX: y\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n")
  }

  @Test(arguments: ["a\r\nb", "a\rb", "a\nb", "a\0", "\u{7f}"])
  func `a value that would break its line is not written`(value: String) {
    let text = written { output in
      #expect(!withBytes(value) { HeadWriter.field("X", $0, to: &output) })
      #expect(!withBytes(value) { bytes in withBytes("X-Y") { HeadWriter.field($0, bytes, to: &output) } })
    }
    #expect(text == "")
  }

  @Test(arguments: ["", "a b", "a:", "a\r"])
  func `a name that is no token is not written`(name: String) {
    var isTaken = true
    #expect(written { output in isTaken = withBytes(name) { HeadWriter.field($0, $0, to: &output) } } == "")
    #expect(!isTaken)
  }

  @Test(arguments: ["a\tb", "", "\u{e9}"])
  func `values with tabs, empty ones and bytes above ASCII are written`(value: String) {
    var isTaken = false
    let text = written { output in isTaken = withBytes(value) { HeadWriter.field("X", $0, to: &output) } }
    #expect(text == "X: \(value)\r\n")
    #expect(isTaken)
  }

  @Test func `fields of our own are written`() {
    #expect(written { HeadWriter.field("X", "y", to: &$0) } == "X: y\r\n")
    #expect(written { HeadWriter.field("X", decimal: 10, to: &$0) } == "X: 10\r\n")
  }

  @Test(arguments: [("GET", "/a b"), ("GET", "/a\r\n"), ("GET", ""), ("G T", "/"), ("", "/"), ("GET", "/a#b")])
  func `a request line that would break is not written`(method: String, target: String) {
    let text = written { output in
      #expect(
        !withBytes(method) { method in
          withBytes(target) { HeadWriter.requestLine(method: method, target: $0, to: &output) }
        })
    }
    #expect(text == "")
  }
}
