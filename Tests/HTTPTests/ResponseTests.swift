import Bytes
import HTTP
import Testing

@Suite struct `Responses` {
  @Test func `status and reason are told apart`() {
    let read = response("HTTP/1.1 404 Not \tFound\u{e9}\r\nContent-Length: 3\r\n\r\n")
    #expect(read.status == 404)
    #expect(read.reason == "Not \tFound\u{e9}")
    #expect(read.framing == .length(3))
    #expect(read.keepsAlive)
  }

  @Test func `a reason may be empty, its space missing`() {
    #expect(response("HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n").reason == "")
    #expect(response("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n").status == 200)
    #expect(response("HTTP/1.1 999 x\nContent-Length: 0\n\n").status == 999)
  }

  @Test(arguments: [
    "HTTP/1.1 99 x", "HTTP/1.1 2000 x", "HTTP/1.1 099 x", "HTTP/1.1  200", "HTTP/1.1 20x OK", "HTTP/1.1\t200 OK",
    "HTTP/1.1 200\tOK", "HTTP/1.1 +20 OK", "HTTP/1.1", "200 OK", "ICY 200 OK", "HTTP/2.0 200 OK", "hello",
    "\r\nHTTP/1.1 200",
    "HTTP/1.1 200 O\rK", "HTTP/1.1 200 O\0K", "HTTP/1.1 200 O\u{1b}K",
  ])
  func `a bad status line is refused`(line: String) {
    #expect(refusal(response("\(line)\r\nContent-Length: 0\r\n\r\n")) != nil)
  }

  @Test func `a response to HEAD, and 304, have no body but may announce its length`() {
    let text = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
    #expect(response(text, to: .head).framing == .none)
    #expect(response(text, to: .head).announcedLength == 5)
    #expect(response(text, to: .head).keepsAlive)
    #expect(response("HTTP/1.1 304 x\r\nContent-Length: 5\r\n\r\n").framing == .none)
    #expect(response("HTTP/1.1 304 x\r\n\r\n").keepsAlive)
    #expect(response("HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n", to: .head).framing == .none)
  }

  @Test func `a 204 that announces a body ends the connection`() {
    #expect(response("HTTP/1.1 204 x\r\n\r\n").keepsAlive)
    #expect(response("HTTP/1.1 204 x\r\nContent-Length: 0\r\n\r\n").keepsAlive)
    for fields in ["Content-Length: 1", "Transfer-Encoding: chunked"] {
      let read = response("HTTP/1.1 204 x\r\n\(fields)\r\n\r\n")
      #expect(read.framing == .none)
      #expect(!read.keepsAlive)
    }
  }

  @Test func `interim responses are told from final ones`() {
    #expect(response("HTTP/1.1 100 Continue\r\n\r\n").isInterim)
    #expect(response("HTTP/1.1 103 x\r\nLink: a\r\n\r\n").isInterim)
    #expect(response("HTTP/1.1 103 x\r\n\r\n").framing == .none)
    let upgrade = response("HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
    #expect(!upgrade.isInterim)
    #expect(upgrade.upgrade == "websocket")
  }

  @Test func `an interim response that announces a body is refused`() {
    #expect(refusal(response("HTTP/1.1 100 x\r\nContent-Length: 1\r\n\r\n")) == .bodyInInterimResponse)
    #expect(refusal(response("HTTP/1.1 100 x\r\nTransfer-Encoding: chunked\r\n\r\n")) == .bodyInInterimResponse)
  }

  @Test func `a response that says nothing of its length runs until the close`() {
    let read = response("HTTP/1.1 200 OK\r\n\r\n")
    #expect(read.framing == .untilClose)
    #expect(!read.keepsAlive)
    #expect(!response("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n").keepsAlive)
    #expect(response("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n").keepsAlive)
    #expect(!response("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n").keepsAlive)
  }

  @Test(arguments: [
    ("1.1", "Content-Length: 1\r\nTransfer-Encoding: chunked"), ("1.1", "Content-Length: 1\r\nContent-Length: 1"),
    ("1.1", "Content-Length: 1, 1"), ("1.0", "Transfer-Encoding: chunked"), ("1.1", "Transfer-Encoding: gzip"),
    ("1.1", "Transfer-Encoding: chunked, chunked"), ("1.1", "X : y"), ("1.1", "X: y\r\n z"), ("1.1", "X: a\rb"),
  ])
  func `a response framed in two ways or badly is refused`(version: String, fields: String) {
    for method in [Method.get, .head] {
      #expect(refusal(response("HTTP/\(version) 200 OK\r\n\(fields)\r\n\r\n", to: method)) != nil)
    }
  }

  @Test func `a head larger than allowed is refused before it ends`() {
    let text = "HTTP/1.1 200 OK\r\n" + String(repeating: "X: aaaaaaaaaaaaaaaaaaa\r\n", count: 10)
    #expect(refusal(response(text, limits: HeadLimits(headBytes: 200))) == .headTooLarge)
  }
}
