import Bytes
import HTTP
import Testing

@Suite struct `Requests as a whole` {
  @Test func `no Host on HTTP 1_1 is refused`() {
    #expect(refusal(request("GET / HTTP/1.1\r\n\r\n")) == .missingHost)
    #expect(isComplete(request("GET / HTTP/1.0\r\n\r\n").outcome))
  }

  @Test(arguments: ["1.0", "1.1"])
  func `two Hosts are refused`(version: String) {
    #expect(refusal(request("GET / HTTP/\(version)\r\nHost: a\r\nHost: a\r\n\r\n")) == .repeatedHost)
  }

  @Test(arguments: [
    "", "a b", "a,b", "a,", "a:80,b:80", "a/b", "u@a", "a:b", "a:65536", "a:-1", "a:1:2", "[::1", "[::1]x", "[]", "[g]",
    "a\"", "a..b",
    ".",
    "a%20", ":80", ".test", ".", "a?", "a#", "a\\b", "é", "[::1]:x", "a:123456",
  ])
  func `an invalid Host is refused`(host: String) {
    #expect(refusal(request("GET / HTTP/1.1\r\nHost: \(host)\r\n\r\n")) == .badHost)
  }

  @Test(
    arguments: [
      ("a", "a", nil), ("a.b:80", "a.b", 80), ("A_b-c.d.", "A_b-c.d", nil), ("[::1]", "[::1]", nil),
      ("[2001:db8::1]:8443", "[2001:db8::1]", 8443), ("127.0.0.1:1", "127.0.0.1", 1), ("a:", "a", nil),
      ("a.:80", "a", 80),
    ] as [(String, String, UInt16?)])
  func `host and port are told apart`(value: String, host: String, port: UInt16?) {
    let read = request("GET / HTTP/1.1\r\nHost: \(value)\r\n\r\n")
    #expect(read.host == host)
    #expect(read.port == port)
  }

  @Test(arguments: ["a", "A:80", "a.", "a:443", "a:", "[::1]:81"])
  func `a Host that is written as the target's authority is taken`(authority: String) {
    let read = request("GET http://\(authority)/x HTTP/1.1\r\nHost: \(authority)\r\n\r\n")
    #expect(isComplete(read.outcome) && authority.hasPrefix(read.host))
    for other in ["b", "a:81", "A", "a..", "a:080"] {
      #expect(!isComplete(request("GET http://\(authority)/x HTTP/1.1\r\nHost: \(other)\r\n\r\n").outcome))
    }
  }

  @Test(arguments: [
    "http://b/", "http://a:81/", "https://a/", "https://a:443", "http://aa/", "http://b:8080/", "http://a/",
    "http://A:80/", "http://a.:80/", "http://a:/", "http://a:080/",
  ])
  func `a Host that isn't the target's authority byte for byte is refused`(target: String) {
    #expect(refusal(request("GET \(target) HTTP/1.1\r\nHost: a:80\r\n\r\n")) == .differentHost)
    #expect(refusal(request("GET \(target) HTTP/1.0\r\nHost: a:80\r\n\r\n")) == .differentHost)
  }

  @Test func `Content-Length frames a body`() {
    #expect(request(fields: "Content-Length: 5\r\n").framing == .length(5))
    #expect(request(fields: "Content-Length: 0\r\n").framing == .length(0))
    #expect(request(fields: "Content-Length: 007\r\n").framing == .length(7))
    #expect(request(fields: "Content-Length: 9223372036854775807\r\n").framing == .length(9_223_372_036_854_775_807))
    #expect(request(fields: "").framing == .none)
  }

  @Test(arguments: [
    "", "-1", "+1", "1,1", "1, 1", "1 1", "0x1", "1.0", "a", "9223372036854775808", "18446744073709551616",
    "99999999999999999999999999", "١", "1;", "\"1\"",
  ])
  func `a bad Content-Length is refused`(value: String) {
    #expect(refusal(request(fields: "Content-Length: \(value)\r\n")) == .badContentLength)
  }

  @Test func `a repeated Content-Length is refused, even an identical one`() {
    #expect(refusal(request(fields: "Content-Length: 1\r\nContent-Length: 1\r\n")) == .repeatedContentLength)
    #expect(refusal(request(fields: "Content-Length: 1\r\ncontent-length: 2\r\n")) == .repeatedContentLength)
  }

  @Test func `Content-Length beside Transfer-Encoding is refused in either order`() {
    let length = "Content-Length: 1\r\n", coding = "Transfer-Encoding: chunked\r\n"
    #expect(refusal(request(fields: length + coding)) == .lengthAndTransferEncoding)
    #expect(refusal(request(fields: coding + length)) == .lengthAndTransferEncoding)
  }

  @Test func `Transfer-Encoding on HTTP 1_0 is refused`() {
    #expect(refusal(request(fields: "Transfer-Encoding: chunked\r\n", version: "1.0")) == .transferEncodingInOldVersion)
  }

  @Test func `chunked in any letter case frames a body`() {
    #expect(request(fields: "Transfer-Encoding: chunked\r\n").framing == .chunked)
    #expect(request(fields: "Transfer-Encoding:  CHUNKED \r\n").framing == .chunked)
  }

  @Test(arguments: ["gzip", "gzip, chunked", "identity", "xchunked", "chunkedx", "deflate,gzip"])
  func `an unknown transfer coding is answered 501`(value: String) {
    let error = refusal(request(fields: "Transfer-Encoding: \(value)\r\n"))
    #expect(error == .unknownTransferCoding)
    #expect(error?.status == 501)
  }

  @Test(arguments: [
    "", "chunked, chunked", "chunked, identity", "chunked,", ",chunked", "chunked;q=1", "\"chunked\"", "chunked gzip",
    "chunked, gzip", "[chunked]", "chunkeｄ",
  ])
  func `a malformed Transfer-Encoding is refused`(value: String) {
    #expect(refusal(request(fields: "Transfer-Encoding: \(value)\r\n"))?.status == 400)
  }

  @Test func `a second Transfer-Encoding is refused`() {
    let coding = "Transfer-Encoding: chunked\r\n"
    #expect(refusal(request(fields: coding + coding)) == .badTransferEncoding)
    #expect(refusal(request(fields: coding + "Transfer-Encoding: identity\r\n")) == .badTransferEncoding)
  }

  @Test(arguments: [
    ("1.1", "", true), ("1.1", "Connection: close\r\n", false), ("1.1", "Connection: CLOSE\r\n", false),
    ("1.1", "Connection: x, close\r\n", false), ("1.1", "Connection: closed\r\n", true), ("1.0", "", false),
    ("1.0", "Connection: Keep-Alive\r\n", true), ("1.0", "Connection: keep-alive, close\r\n", false),
    ("1.1", "Connection: keep-alive\r\nConnection: close\r\n", false),
  ])
  func `a connection keepsAlive by version and Connection`(version: String, fields: String, keepsAlive: Bool) {
    #expect(request(fields: fields, version: version).keepsAlive == keepsAlive)
  }

  @Test func `fields of the connection are marked`() {
    let read = request(
      fields: "Connection: x-one, Accept,,te\r\nX-One: 1\r\nX-Two: 2\r\nAccept: a\r\nTE: trailers\r\n"
        + "Keep-Alive: 5\r\nProxy-Connection: x\r\nUpgrade: h2c\r\n")
    #expect(
      read.hopByHop == ["Connection", "X-One", "Accept", "TE", "Keep-Alive", "Proxy-Connection", "Upgrade"])
    #expect(read.acceptsTrailers)
    #expect(read.upgrade == nil)
  }

  @Test func `Connection cannot nominate what others depend on`() {
    let read = request(
      fields: "Connection: host, content-length, authorization, cookie\r\nContent-Length: 1\r\nAuthorization: x\r\n"
        + "Cookie: c\r\n")
    #expect(read.hopByHop == ["Connection"])
  }

  @Test func `a Connection that nominates without end is refused`() {
    let names = (0..<40).map { "x\($0)" }.joined(separator: ",")
    #expect(refusal(request(fields: "Connection: \(names)\r\n")) == .tooManyConnectionOptions)
  }

  @Test func `an upgrade counts when Connection nominates it, on HTTP 1_1`() {
    let fields = "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
    #expect(request(fields: fields).upgrade == "websocket")
    #expect(request(fields: fields, version: "1.0").upgrade == nil)
    #expect(request(fields: "Upgrade: websocket\r\n").upgrade == nil)
  }

  @Test func `Expect counts on HTTP 1_1`() {
    #expect(request(fields: "Expect: 100-Continue\r\n").expectsContinue)
    #expect(!request(fields: "Expect: 100-continue\r\n", version: "1.0").expectsContinue)
    #expect(!request(fields: "Expect: other\r\n").expectsContinue)
  }

  @Test func `pipelined requests are read one after another`() {
    let bytes = Array(
      "GET /1 HTTP/1.1\r\nHost: h\r\nX: y\r\n\r\nPOST /2 HTTP/1.0\r\n\r\n\r\nGET /3 HTTP/1.1\r\nHost: i\r\n\r\n".utf8)
    var parser = HeadParser(), at = 0
    let head = RequestHead()
    var seen: [String] = []
    while at < bytes.count {
      let outcome = bytes[at...].withUnsafeBytes { parser.request($0, limits: HeadLimits(), into: head) }
      guard case .complete(let consumed) = outcome else { break }
      at += consumed
      seen.append("\(head.bytes.readable[head.target.raw].text) \(head.fields.count)")
    }
    #expect(seen == ["/1 2", "/2 0", "/3 1"])
    #expect(at == bytes.count)
  }

  @Test func `a reused head forgets the request before`() {
    let head = RequestHead()
    let full = "Connection: upgrade\r\nUpgrade: x\r\nExpect: 100-continue\r\nTE: trailers\r\nContent-Length: 3\r\n"
    _ = request("POST /a?b HTTP/1.1\r\nHost: h:1\r\n\(full)\r\n", head: head)
    #expect(request("GET / HTTP/1.0\r\n\r\n", head: head) == request("GET / HTTP/1.0\r\n\r\n"))
    #expect(head.first(.host) == nil)
  }

  @Test func `every refusal has a status and a reason`() {
    for error in HeadError.allCases {
      #expect([400, 405, 414, 501, 505].contains(error.status))
      #expect(error.reason.utf8CodeUnitCount >= 10)
    }
  }
}
