import HTTP
import Testing

@Suite struct `Bytes in pieces` {
  static let requests = [
    "GET /a/b?c=d HTTP/1.1\r\nHost: example.org:8443\r\nUser-Agent: x/1.0 (a; b)\r\nAccept: */*\r\n\r\nnext",
    "\r\n\nPOST /x HTTP/1.1\nHost:h\nContent-Length: 5\nConnection: x-a, close\nX-A: \t1\t \n\nhello",
    "GET http://h:1/p HTTP/1.0\r\nHost: b\r\nConnection: keep-alive\r\nX_dropped: y\r\nX-Ü: 1\r\n\r\n",
    "OPTIONS / HTTP/1.7\r\nHost: [::1]:80\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n",
    "GET /\r\n\r\n", "GET / HTTP/2.0\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "GET / HTTP/1.1\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", "GET / HTT\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n", "\u{16}\u{3}\u{1}\u{2}", "GET /\u{1} HTTP/1.1\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", "\r\n\r\n\r\n\r\n\r\n",
  ]
  static let responses = [
    "HTTP/1.1 200 OK\r\nServer: x\r\nDate: Sat, 21 Nov 2026 11:31:40 GMT\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/1.0 404\nConnection: keep-alive\nContent-Type: text/plain\n\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK",
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n\u{1}\u{2}",
    "HTTP/1.1 204 No\tContent\r\n\r\n", "garbage\r\n\r\n", "HTTP/1.1 20x\r\n\r\n", "HTTP/1.1 200 OK\r\nX: \0\r\n\r\n",
  ]
  static let bodies = [
    "5\r\nhello\r\n00A;ext=\"x\"\r\n0123456789\r\n0\r\n\r\nGET", "0\r\n\r\n",
    "0 ;a\r\nX-A: b\r\nHost: x\r\nX-B:\t c \r\n\r\nnext",
    "1\r\na\r\n0\r\nX : y\r\n\r\n", "5\r\nhello!", "5\r\nhello\n", "fffffffffffffffff\r\n", "5 \r\nhello", "5\r\nhell",
  ]

  /// Byte by byte, and cut in two at every place.
  static func cuts(_ count: Int) -> [[Int]] {
    [Array(0...count)] + (0...count).map { [$0, count] }
  }

  @Test(arguments: requests)
  func `a request in pieces is the request at once`(text: String) {
    let bytes = Array(text.utf8)
    let whole = requestInPieces(bytes, ends: [bytes.count])
    for ends in Self.cuts(bytes.count) { #expect(requestInPieces(bytes, ends: ends) == whole) }
  }

  @Test(arguments: responses)
  func `a response in pieces is the response at once`(text: String) {
    let bytes = Array(text.utf8)
    let whole = responseInPieces(bytes, ends: [bytes.count])
    for ends in Self.cuts(bytes.count) { #expect(responseInPieces(bytes, ends: ends) == whole) }
  }

  @Test(arguments: bodies)
  func `a chunked body in pieces is the body at once`(text: String) {
    let bytes = Array(text.utf8)
    let whole = body(bytes)
    for ends in Self.cuts(bytes.count) {
      var read = body(bytes, ends: ends)
      // Where a refused body stopped is not part of the refusal.
      if case .failed = read.result { read.consumed = whole.consumed }
      #expect(read == whole)
    }
  }

  @Test func `a head that arrives byte by byte is searched once`() {
    let text = "GET / HTTP/1.1\r\nHost: h\r\nCookie: \(String(repeating: "c", count: 8000))\r\n\r\n"
    let bytes = Array(text.utf8)
    var parser = HeadParser()
    let head = RequestHead()
    bytes.withUnsafeBytes { bytes in
      for end in 1..<bytes.count {
        let part = UnsafeRawBufferPointer(rebasing: bytes[..<end])
        #expect(parser.request(part, limits: HeadLimits(), into: head) == .incomplete)
      }
      #expect(parser.request(bytes, limits: HeadLimits(), into: head) == .complete(consumed: bytes.count))
    }
  }
}
