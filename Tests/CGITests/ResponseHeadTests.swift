import Bytes
import CGI
import HTTP
import TestSupport
import Testing

@Suite struct `Heads of programs` {
  @Test(
    arguments: [
      ("Status: 404 Not Found\r\n\r\n", 404, "Not Found"), ("status: 404\n\n", 404, ""),
      ("Status: 200 \r\n\r\n", 200, ""), ("Status:999 x y\r\n\r\n", 999, "x y"), ("A: b\r\n\r\n", 200, ""),
      ("\r\n", 200, ""), ("\n", 200, ""), ("Location: /y\r\n\r\n", 302, ""),
      ("Location: http://h/\r\nStatus: 301 Moved\r\n\r\n", 301, "Moved"),
      ("HTTP/1.1 404 Gone Away\r\nA: b\r\n\r\n", 404, "Gone Away"), ("HTTP/1.0 201\n\n", 201, ""),
      ("HTTP/1.1 201 X\r\nStatus: 404 y\r\nLocation: /\r\n\r\n", 201, "X"),
    ] as [(String, UInt16, String)])
  func `the status is that of the status line, of Status, 302 with Location, or 200`(
    text: String, status: UInt16, reason: String
  ) {
    let read = ReadHead(text)
    #expect(read.outcome == .complete(consumed: text.utf8.count))
    #expect(read.status == status && read.reason == reason && read.framing == .untilClose)
  }

  @Test(
    arguments: [
      ("Status: 40\r\n\r\n", .badStatusField), ("Status:\r\n\r\n", .badStatusField),
      ("Status: 4040 x\r\n\r\n", .badStatusField), ("Status: 4 4\r\n\r\n", .badStatusField),
      ("Status: +44\r\n\r\n", .badStatusField), ("Status: 099 x\r\n\r\n", .badStatusField),
      ("Status: 200\tx\r\n\r\n", .badStatusField), ("Status: OK\r\n\r\n", .badStatusField),
      ("Status: 200\r\nStatus: 200\r\n\r\n", .repeatedStatusField), ("Status: 103 Early Hints\r\n\r\n", .interimStatus),
      ("Status: 100\r\n\r\n", .interimStatus), ("HTTP/1.1 101 Switching Protocols\r\n\r\n", .interimStatus),
      ("HTTP/1.1 20 OK\r\n\r\n", .badStatusLine), ("HTTP/2 200\r\n\r\n", .badVersion),
      ("HTTP/1.1\r\n\r\n", .badStatusLine),
      ("HTT\r\n\r\n", .missingColon), ("<html>\r\n", .missingColon), ("A b: c\r\n\r\n", .whitespaceBeforeColon),
      ("A: b\r\n c\r\n\r\n", .lineFolding), (" A: b\r\n\r\n", .whitespaceBeforeFirstField),
      ("A: b\rc\r\n\r\n", .bareCarriageReturn), ("A: b\0\r\n\r\n", .nul), (": b\r\n\r\n", .emptyFieldName),
      ("A(: b\r\n\r\n", .badFieldName), ("Content-Length: x\r\n\r\n", .badContentLength),
      ("Content-Length: 1\r\nContent-Length: 1\r\n\r\n", .repeatedContentLength),
      ("Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", .lengthAndTransferEncoding),
      ("Transfer-Encoding: gzip\r\n\r\n", .unknownTransferCoding),
    ] as [(String, HeadError)])
  func `a malformed head is refused`(text: String, error: HeadError) {
    #expect(ReadHead(text).error == error)
  }

  @Test func `a status line is none of FastCGI's`() {
    #expect(ReadHead("HTTP/1.1 200 OK\r\n\r\n", of: .fields).error == .whitespaceBeforeColon)
    #expect(ProgramProtocol.fastCGI(keepsConnection: true).responseStart == .fields)
    #expect(ProgramProtocol.scgi.responseStart == .statusLineOrFields)
    #expect(ReadHead("Status: 200\r\n\r\n", of: .statusLine).error != nil)
  }

  @Test func `every cut gives the same`() {
    for text in [
      "Status: 404 Not Found\r\nContent-Length: 3\r\nX: y\r\n\r\nabc", "HTTP/1.1 200 OK\nX: y\n\nabc", "H: x\n\nHTTP/",
      "HTTP: x\r\nHTT: y\r\n\r\n", "\r\nbody", "HTTP/1.1 20\r\n\r\n", "HTTP\r\n\r\n", "Status: 1\r\n\r\n",
    ] {
      let bytes = Array(text.utf8), whole = ReadHead(text)
      #expect(ReadHead(bytes, ends: Array(0...bytes.count)) == whole, "\(text)")
      for cut in 0...bytes.count { #expect(ReadHead(bytes, ends: [cut, bytes.count]) == whole, "\(text) \(cut)") }
      #expect(whole.outcome != .incomplete)
    }
    #expect(ReadHead("HTT").outcome == .incomplete && ReadHead("Status: 200\r\n").outcome == .incomplete)
  }

  @Test(arguments: FuzzInput.all(of: "FuzzCGIHead")) func `inputs of the fuzzer are read the same in any pieces`(
    input: FuzzInput
  ) {
    let whole = ReadHead(input.text), pieces = ReadHead(input.text, ends: Array(0...input.text.count))
    if whole.error == nil {
      #expect(pieces == whole)
    } else {
      #expect(pieces.error != nil || pieces.outcome == .incomplete)
    }
  }

  @Test func `lines and heads have bounds`() {
    let line = "A: \(String(repeating: "b", count: 200))\r\n"
    let limits = HeadLimits(lineBytes: 100, headBytes: 300)
    #expect(ReadHead("\(line)\r\n", limits: limits).error == .fieldTooLarge)
    #expect(ReadHead(String(line.dropLast(2)), limits: limits).error == .fieldTooLarge)
    #expect(ReadHead(String(repeating: "A: b\r\n", count: 60) + "\r\n", limits: limits).error == .headTooLarge)
    #expect(ReadHead(String(repeating: "A: b\r\n", count: 1001) + "\r\n").error == .tooManyFields)
    #expect(ReadHead(String(repeating: "A: b\r\n", count: 1000) + "\r\n").status == 200)
  }

  @Test func `fields of a connection are gone, and those that Connection names`() {
    let read = ReadHead(
      "Connection: close, X-Hop\r\nX-Hop: a\r\nKeep-Alive: 1\r\nUpgrade: x\r\n"
        + "Transfer-Encoding: chunked\r\nB: c\r\n\r\n"
    )
    #expect(read.fields == ["B: c"] && read.framing == .untilClose)
  }

  @Test func `a connection is never kept, or upgraded, by what a program says`() {
    let head = ResponseHead()
    let text = "HTTP/1.1 200 OK\r\nConnection: upgrade, keep-alive\r\nUpgrade: websocket\r\nContent-Length: 1\r\n\r\n"
    #expect(ReadHead(text, into: head).status == 200)
    #expect(!head.keepsAlive && head.upgrade == nil && !head.isInterim)
  }

  @Test(
    arguments: [
      ("Status: 204\r\n\r\n", .get, .none, nil), ("Status: 304\r\nContent-Length: 5\r\n\r\n", .get, .none, 5),
      ("Content-Length: 5\r\n\r\n", .head, .none, 5), ("A: b\r\n\r\n", .head, .none, nil),
      ("Content-Length: 5\r\n\r\n", .get, .length(5), 5), ("A: b\r\n\r\n", .post, .untilClose, nil),
      ("Status: 204\r\nContent-Length: 5\r\n\r\n", .get, .none, 5),
    ] as [(String, Method, BodyFraming, UInt64?)])
  func `the body is as long as Content-Length says, or lasts to the end`(
    text: String, method: Method, framing: BodyFraming, length: UInt64?
  ) {
    let read = ReadHead(text, to: method)
    #expect(read.framing == framing && read.announcedLength == length)
  }

  @Test func `a body that is too long is cut, and one that is too short is broken`() {
    func body(_ text: String, _ framing: BodyFraming) -> (kept: Int, rest: Int, end: BodyEndOfStream) {
      var decoder = BodyDecoder(framing), rest = Array(text.utf8), kept = 0
      while true {
        switch rest.withUnsafeBytes({ decoder.next($0) }) {
        case .data(_, let count, let consumed):
          kept += count
          rest.removeFirst(consumed)
        default: return (kept, rest.count, decoder.atEndOfStream())
        }
      }
    }
    #expect(body("abcde", .length(3)) == (3, 2, .complete))
    #expect(body("abcde", .length(9)) == (5, 0, .truncated))
    #expect(body("abcde", .untilClose) == (5, 0, .complete))
    #expect(body("abcde", .none) == (0, 5, .complete))
  }

  @Test(
    arguments: [
      ("Status: 404\r\n\r\n", "404 Not Found"), ("Location: /\r\n\r\n", "302 Moved Temporarily"), ("\r\n", "200 OK"),
      ("Status: 404 Gone Away\r\n\r\n", "404 Gone Away"), ("HTTP/1.1 404\r\n\r\n", "404 "),
    ])
  func `the client gets the program's phrase, or the usual one`(text: String, line: String) {
    let head = ResponseHead(), outgoing = OutgoingResponseHead()
    #expect(ReadHead(text, into: head).status > 0)
    outgoing.reset(over: head)
    outgoing.status = head.status
    var output = ByteBuffer()
    HTTP1Encoder.response(outgoing, to: &output)
    #expect(String(decoding: output.readable, as: UTF8.self).hasPrefix("HTTP/1.1 \(line)\r\n"))
  }

  @Test(
    arguments: [
      ("A: b\r\n\r\n", ""), ("Location:\r\n\r\n", ""), ("Location: /a?b\r\n\r\n", "local /a?b"),
      ("Location: //h/a\r\n\r\n", "client //h/a"), ("Location: https://h/a\r\n\r\n", "client https://h/a"),
      ("Status: 302\r\nLocation: /a\r\n\r\n", "client /a"), ("HTTP/1.1 302 X\r\nLocation: /a\r\n\r\n", "client /a"),
    ])
  func `a path in Location without a status is a redirect within the server`(text: String, redirect: String) {
    let head = ResponseHead()
    _ = ReadHead(text, into: head)
    let bytes = head.bytes.readable
    switch ProgramRedirect(of: head) {
    case .none: #expect(redirect == "")
    case .local(let path): #expect(redirect == "local \(bytes[path].text)")
    case .client(let url): #expect(redirect == "client \(bytes[url].text)")
    }
  }
}
