import Bytes
import HTTP
import Testing

@Suite struct `Request lines` {
  @Test func `method, target and version are told apart`() {
    let read = request("GET /a/b?c=d&e HTTP/1.1\r\nHost: h\r\n\r\n")
    #expect(read.method == "GET")
    #expect(read.target == "/a/b?c=d&e")
    #expect(read.path == "/a/b")
    #expect(read.query == "c=d&e")
    #expect(read.version == .http11)
    #expect(read.outcome == .complete(consumed: 36))
  }

  @Test func `the first question mark begins the query`() {
    let read = request("GET /a?b?c HTTP/1.1\r\nHost: h\r\n\r\n")
    #expect(read.path == "/a")
    #expect(read.query == "b?c")
    #expect(request("GET /a? HTTP/1.1\r\nHost: h\r\n\r\n").query == "")
    #expect(request("GET /a HTTP/1.1\r\nHost: h\r\n\r\n").query == nil)
  }

  @Test(arguments: [
    ("GET", Method.get), ("HEAD", .head), ("POST", .post), ("PUT", .put), ("DELETE", .delete), ("OPTIONS", .options),
    ("PATCH", .patch), ("PROPFIND", .other), ("M-SEARCH", .other), ("GETX", .other), ("GE", .other),
  ])
  func `a method is recognised whole`(text: String, method: Method) {
    let head = RequestHead()
    #expect(isComplete(request("\(text) / HTTP/1.1\r\nHost: h\r\n\r\n", head: head).outcome))
    #expect(head.method == method)
    #expect(head.bytes.readable[head.methodRange].text == text)
  }

  @Test func `safe and idempotent methods are those of RFC 9110`() {
    let all: [Method] = [.get, .head, .post, .put, .delete, .options, .trace, .patch, .connect, .other]
    #expect(all.filter(\.isSafe) == [.get, .head, .options, .trace])
    #expect(all.filter(\.isIdempotent) == [.get, .head, .put, .delete, .options, .trace])
  }

  @Test(arguments: ["get", "G\"T", "GE(T)", "G\u{7}T", "GÉT", "\u{16}\u{3}\u{1}", "G:T", " GET", ""])
  func `a method of other than capitals, underscore and hyphen is refused`(method: String) {
    let error = refusal(request("\(method) / HTTP/1.1\r\nHost: h\r\n\r\n"))
    #expect(error == .badMethod)
    #expect(error?.status == 400)
  }

  @Test func `bytes that begin no method are refused before the line ends`() {
    #expect(refusal(request("\u{16}\u{3}\u{1}")) == .badMethod)
    #expect(refusal(request("G\u{1}")) == .badMethod)
  }

  @Test(arguments: [("CONNECT h:443", HeadError.connectMethod), ("TRACE /", .traceMethod)])
  func `CONNECT and TRACE are answered 405`(line: String, expected: HeadError) {
    let error = refusal(request("\(line) HTTP/1.1\r\nHost: h\r\n\r\n"))
    #expect(error == expected)
    #expect(error?.status == 405)
  }

  @Test(arguments: ["HTTP/2.0", "HTTP/3.0", "HTTP/0.9", "HTTP/9.9"])
  func `another major version is answered 505`(version: String) {
    let error = refusal(request("GET / \(version)\r\nHost: h\r\n\r\n"))
    #expect(error == .unsupportedVersion)
    #expect(error?.status == 505)
  }

  @Test func `the preface of HTTP/2 is answered 505`() {
    #expect(refusal(request("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")) == .unsupportedVersion)
    #expect(refusal(request("PRI / HTTP/1.1\r\nHost: h\r\n\r\n")) == .prefaceMethod)
  }

  @Test(arguments: ["http/1.1", "HTTP/1", "HTTP/1.", "HTTP/1,1", "HTTP/x.1", "HTTP/1.x", "HTTPS/1.1", "H", "HTTP/-1.1"])
  func `a malformed version is refused`(version: String) {
    let error = refusal(request("GET / \(version)\r\nHost: h\r\n\r\n"))
    #expect(error == .badVersion)
    #expect(error?.status == 400)
  }

  @Test(arguments: ["HTTP/1.11", "HTTP/1.1 ", "HTTP/1.1 x", "HTTP/1.1\t"])
  func `anything behind the version is refused`(version: String) {
    #expect(refusal(request("GET / \(version)\r\nHost: h\r\n\r\n")) != nil)
  }

  @Test func `a higher minor version counts as 1_1`() {
    #expect(request("GET / HTTP/1.7\r\nHost: h\r\n\r\n").version == .http11)
  }

  @Test(arguments: ["GET /\r\n", "GET /a?b\r\n\r\n", "GET /\n"])
  func `a simple request of HTTP 0_9 is refused`(text: String) {
    let error = refusal(request(text))
    #expect(error == .simpleRequest)
    #expect(error?.status == 400)
  }

  @Test(arguments: ["/a b", "/a\tb", "/a\u{1}", "/a\u{7F}", "/a#b", "a", "*", "", "//?a b", "?", "host/path"])
  func `an invalid target is refused`(target: String) {
    #expect(refusal(request("GET \(target) HTTP/1.1\r\nHost: h\r\n\r\n")) != nil)
  }

  @Test func `a target may have bytes above ASCII, as in nginx`() {
    #expect(request("GET /é?ü HTTP/1.1\r\nHost: h\r\n\r\n").path == "/é")
  }

  @Test func `two spaces in a request line are refused`() {
    #expect(refusal(request("GET  / HTTP/1.1\r\nHost: h\r\n\r\n")) == .badTarget)
    #expect(refusal(request("GET /  HTTP/1.1\r\nHost: h\r\n\r\n")) == .badVersion)
  }

  @Test func `the asterisk is refused, of OPTIONS too`() {
    #expect(refusal(request("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n")) == .badTarget)
    #expect(refusal(request("GET * HTTP/1.1\r\nHost: h\r\n\r\n")) == .badTarget)
    #expect(refusal(request("OPTIONS ** HTTP/1.1\r\nHost: h\r\n\r\n")) == .badTarget)
  }

  @Test func `the host is the authority of an absolute target`() {
    let read = request("GET http://b.example:81/p?q HTTP/1.1\r\nHost: b.example:81\r\n\r\n")
    #expect(read.form == .absolute)
    #expect(read.host == "b.example")
    #expect(read.port == 81)
    #expect(read.path == "/p")
    #expect(read.query == "q")
    #expect(read.fields == ["Host: b.example:81"])
  }

  @Test func `an absolute target may lack a path`() {
    let read = request("GET HTTPS://b?q HTTP/1.1\r\nHost: b\r\n\r\n")
    #expect(read.path == "")
    #expect(read.query == "q")
    #expect(read.host == "b")
  }

  @Test(arguments: [
    "http://", "http:///p", "http://?q", "http://u@h/", "http://h:x/", "ftp://h/", "http:/h", "https://",
    "http://h h/", "http://[::1/", "http://a%2e/",
  ])
  func `a bad absolute target is refused`(target: String) {
    #expect(refusal(request("GET \(target) HTTP/1.1\r\nHost: h\r\n\r\n")) != nil)
  }

  @Test func `an absolute target does not excuse a missing or bad Host`() {
    #expect(refusal(request("GET http://h/ HTTP/1.1\r\n\r\n")) == .missingHost)
    #expect(refusal(request("GET http://h/ HTTP/1.1\r\nHost: a b\r\n\r\n")) == .badHost)
  }

  @Test func `a few empty lines ahead of a request are skipped`() {
    let read = request("\r\n\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n")
    #expect(read.method == "GET")
    #expect(read.outcome == .complete(consumed: 32))
    #expect(refusal(request(String(repeating: "\r\n", count: 5))) == .badRequestLine)
    #expect(refusal(request("\r\rGET / HTTP/1.1\r\n\r\n")) == .bareCarriageReturn)
  }

  @Test func `a request line longer than allowed is answered 414`() {
    let limits = HeadLimits(lineBytes: 100)
    let long = String(repeating: "a", count: 100)
    #expect(refusal(request("GET /\(long) HTTP/1.1\r\nHost: h\r\n\r\n", limits: limits))?.status == 414)
    #expect(refusal(request("GET /\(long)", limits: limits)) == .requestLineTooLong)
    #expect(isComplete(request("GET /\(long.prefix(84)) HTTP/1.1\r\nHost: h\r\n\r\n", limits: limits).outcome))
    #expect(refusal(request("GET /\(long.prefix(85)) HTTP/1.1\r\nHost: h\r\n\r\n", limits: limits))?.status == 414)
  }

  @Test func `a refused request leaves its request line for the log`() {
    let head = RequestHead()
    #expect(refusal(request("GET /a HTTP/1.1\r\nHost: h\r\nbad\r\n\r\n", head: head)) == .missingColon)
    #expect(head.bytes.readable[head.target.raw].text == "/a")
    #expect(head.method == .get)
    #expect(head.fields.isEmpty)
  }

  @Test(
    arguments: [
      ("TRACE /a?b HTTP/1.1\r\nHost: h\r\n\r\n", "TRACE /a?b HTTP/1.1", "TRACE", "/a", "h"),
      ("CONNECT x:443 HTTP/1.1\r\nHost: h\r\n\r\n", "CONNECT x:443 HTTP/1.1", "CONNECT", "", ""),
      ("GET /a?b HTTP/2.0\r\nHost: h\r\n\r\n", "GET /a?b HTTP/2.0", "GET", "/a", ""),
      ("get /a HTTP/1.1\r\n\r\n", "get /a HTTP/1.1", "", "", ""),
      ("GET /a\r\n\r\n", "GET /a", "GET", "/a", ""),
      ("GET a HTTP/1.1\r\n\r\n", "GET a HTTP/1.1", "GET", "", ""),
      ("GET /a#b HTTP/1.1\r\n\r\n", "GET /a#b HTTP/1.1", "GET", "", ""),
      ("\u{16}\u{3}x\ry\r\n", "\u{16}\u{3}x", "", "", ""),
      ("GET /a HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", "GET /a HTTP/1.1", "GET", "/a", ""),
      ("GET http://h/a HTTP/1.1\r\nHost: i\r\n\r\n", "GET http://h/a HTTP/1.1", "GET", "/a", ""),
      ("GET http://h/a HTTP/1.1\r\nHost: h\r\nbad\r\n\r\n", "GET http://h/a HTTP/1.1", "GET", "/a", "h"),
      ("POST /a HTTP/1.1\r\nHost: h.:1\r\nContent-Length: x\r\n\r\n", "POST /a HTTP/1.1", "POST", "/a", "h"),
    ])
  func `what is known of a refused request stays`(
    text: String, line: String, method: String, path: String, host: String
  ) {
    let head = RequestHead()
    #expect(refusal(request(text, head: head)) != nil)
    let bytes = head.bytes.readable
    #expect(head.refusedLine.map { bytes[$0].text } == line)
    #expect(bytes[head.methodRange].text == method && bytes[head.target.path].text == path)
    #expect(bytes[head.host].text == host)
    #expect(head.fields.isEmpty && head.framing == .none)
  }

  @Test func `of a request line that is too long, as much is kept as a line may have`() {
    let head = RequestHead()
    let text = "GET /" + String(repeating: "a", count: 200) + " HTTP/1.1\r\nHost: h\r\n\r\n"
    #expect(refusal(request(text, limits: HeadLimits(lineBytes: 100), head: head)) == .requestLineTooLong)
    #expect(head.refusedLine.map { head.bytes.readable[$0].text } == String(text.prefix(100)))
    #expect(head.method == .get && head.target.raw.isEmpty)
  }

  @Test(arguments: [
    ("", ""), ("GET /a", ""), ("GET /a HT", "/a"), ("GET /a HTTP/1.1\r\n", "/a"),
    ("GET /a HTTP/1.1\r\nHost: h\r\nX", "/a"),
  ])
  func `a request that is given up leaves a target that is whole`(text: String, target: String) {
    let head = RequestHead()
    var parser = HeadParser()
    Array(text.utf8).withUnsafeBytes { bytes in
      #expect(parser.request(bytes, limits: HeadLimits(), into: head) == .incomplete)
      parser.abandon(bytes, limits: HeadLimits(), head)
    }
    #expect(head.bytes.readable[head.target.raw].text == target)
    let line = text.split(separator: "\r\n").first ?? ""
    #expect(head.refusedLine.map { head.bytes.readable[$0].text } == String(line))
    #expect(head.fields.isEmpty)
    let next = Array("GET /next HTTP/1.1\r\nHost: h\r\n\r\n".utf8)
    #expect(
      next.withUnsafeBytes { parser.request($0, limits: HeadLimits(), into: head) } == .complete(consumed: next.count))
  }
}
