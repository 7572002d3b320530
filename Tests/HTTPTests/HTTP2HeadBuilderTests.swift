import Bytes
import HTTP
import Testing

@Suite struct `Heads of HTTP 2` {
  typealias Field = (name: String, value: String)

  static let base: [Field] = [(":method", "GET"), (":scheme", "https"), (":path", "/a?b=c"), (":authority", "h")]

  /// Reads a block; the second is the refusal.
  private func read(
    _ fields: [Field], endsStream: Bool = true, limits: HeadLimits = HeadLimits(), head: RequestHead = RequestHead()
  ) -> (ReadRequest, HeadError?) {
    var builder = HTTP2HeadBuilder()
    builder.begin(head, limits: limits)
    for field in fields {
      Array(field.name.utf8).withUnsafeBytes { name in
        Array(field.value.utf8).withUnsafeBytes { value in builder.add(name, value, to: head) }
      }
    }
    do throws(HeadError) {
      try builder.finish(head, endsStream: endsStream)
      return (ReadRequest(.complete(consumed: 0), head), nil)
    } catch {
      #expect(head.fields.isEmpty)
      return (ReadRequest(.failed(error), head), error)
    }
  }

  private func refusal(_ fields: [Field], endsStream: Bool = true, limits: HeadLimits = HeadLimits()) -> HeadError? {
    read(fields, endsStream: endsStream, limits: limits).1
  }

  private func replacing(_ name: String, _ value: String?) -> [Field] {
    Self.base.compactMap { $0.name == name ? value.map { (name, $0) } : $0 }
  }

  @Test func `pseudo-fields make the request line and the Host`() {
    let (read, error) = read(Self.base + [("accept", "*/*")])
    #expect(error == nil)
    #expect(read.method == "GET" && read.target == "/a?b=c" && read.path == "/a" && read.query == "b=c")
    #expect(read.version == .http2 && read.host == "h" && read.port == nil && read.form == .origin)
    #expect(read.fields == ["host: h", "accept: */*"])
    #expect(read.framing == .none && read.keepsAlive && read.acceptsTrailers && read.upgrade == nil)
  }

  @Test(arguments: [
    (":method", "POST"), (":method", "PURGE"), (":path", "/"), (":path", "/?"), (":path", "/%41?a?b"),
    (":scheme", "http"), (":authority", "h:8080"), (":authority", "[::1]:1"), (":authority", "h."),
  ]) func `valid pseudo-fields are taken`(name: String, value: String) {
    #expect(refusal(replacing(name, value)) == nil)
  }

  @Test(
    arguments: [
      (":method", nil, .missingPseudoField), (":scheme", nil, .missingPseudoField), (":path", nil, .missingPseudoField),
      (":authority", nil, .missingHost), (":method", "", .badMethod), (":method", "G T", .badMethod),
      (":method", "get", .badMethod), (":method", "TRACE", .traceMethod), (":method", "CONNECT", .connectMethod),
      (":scheme", "", .badScheme), (":scheme", "ftp", .badScheme), (":scheme", "HTTPS", .badScheme),
      (":path", "", .badTarget), (":path", "a", .badTarget), (":path", "*", .badTarget), (":path", "/a b", .badTarget),
      (":path", "/a#b", .badTarget), (":path", "https://h/", .badTarget), (":path", "/\r\n", .badTarget),
      (":path", "/?\0", .badTarget), (":path", "/\u{7f}", .badTarget), (":authority", "", .badHost),
      (":authority", "a@h", .badHost), (":authority", "h/", .badHost), (":authority", "h\r\nx: y", .badHost),
      (":authority", "h:x", .badHost), (":authority", "a b", .badHost),
    ] as [(String, String?, HeadError)])
  func `invalid and missing pseudo-fields are refused`(name: String, value: String?, error: HeadError) {
    #expect(refusal(replacing(name, value)) == error)
  }

  @Test(
    arguments: [
      (":method", "TRACE", "TRACE", "/a?b=c", "/a", "h"), (":path", "/\r\nx", "GET", "/", "", "h"),
      (":scheme", "ftp", "GET", "", "", ""), (":authority", "a b", "GET", "/a?b=c", "/a", ""),
    ])
  func `what is known of a refused request stays`(
    name: String, value: String, method: String, raw: String, path: String, host: String
  ) {
    let head = RequestHead()
    #expect(read(replacing(name, value), head: head).1 != nil)
    let bytes = head.bytes.readable
    #expect(head.refusedLine?.isEmpty == true)
    #expect(bytes[head.methodRange].text == method && bytes[head.target.raw].text == raw)
    #expect(bytes[head.target.path].text == path && bytes[head.host].text == host)
    #expect(head.fields.isEmpty && head.framing == .none)
  }

  @Test func `OPTIONS can't ask for the server as a whole`() {
    #expect(refusal([(":method", "OPTIONS"), (":scheme", "https"), (":path", "*"), (":authority", "h")]) == .badTarget)
  }

  @Test func `a pseudo-field stands once, before all fields, and under a known name`() {
    for field in Self.base {
      #expect(refusal(Self.base + [field]) == .repeatedPseudoField, "\(field.name)")
      #expect(refusal([("x", "y")] + Self.base) == .badPseudoField)
    }
    for name in [":status", ":test", ":", ":Method", ":method "] {
      #expect(refusal(Self.base + [(name, "200")]) == .badPseudoField, "\(name)")
    }
    // The first error stays.
    #expect(refusal([(":test", ""), ("X", "")] + Self.base) == .badPseudoField)
  }

  @Test(
    arguments: [
      ("h", nil), ("H", .differentHost), ("h:443", .differentHost), ("h:80", .differentHost), ("h:", .differentHost),
      ("h.", .differentHost), ("other", .differentHost), ("", .badHost), ("a@h", .badHost),
    ] as [(String, HeadError?)])
  func `a Host beside the authority must be the same bytes, and is not a second one`(host: String, error: HeadError?) {
    let (read, refusal) = read(Self.base + [("host", host), ("x-a", "b")])
    #expect(refusal == error, "\(host)")
    if error == nil { #expect(read.fields == ["host: h", "x-a: b"] && read.host == "h") }
  }

  @Test func `a Host alone is enough, two are not`() {
    #expect(read(replacing(":authority", nil) + [("host", "h:1")]).0.port == 1)
    #expect(refusal(replacing(":authority", nil) + [("host", "h"), ("host", "h")]) == .repeatedHost)
    #expect(refusal(Self.base + [("host", "h"), ("host", "h")]) == .repeatedHost)
  }

  @Test func `cookies become one field, at the end`() {
    let (read, _) = read(Self.base + [("cookie", "a=b"), ("x", "y"), ("cookie", "c=d; e=f"), ("cookie", "g")])
    #expect(read.fields == ["host: h", "x: y", "cookie: a=b; c=d; e=f; g"])
    // Many small ones count together, and not as lines.
    let many = [Field](repeating: ("cookie", String(repeating: "c", count: 100)), count: 100)
    #expect(refusal(Self.base + many, limits: HeadLimits(fields: 10)) == nil)
    #expect(refusal(Self.base + many, limits: HeadLimits(headBytes: 9000)) == .headTooLarge)
    let empty = [Field](repeating: ("cookie", ""), count: 6000)
    #expect(refusal(Self.base + empty) == .headTooLarge)
  }

  @Test(arguments: [
    ("connection", "close"), ("proxy-connection", "x"), ("keep-alive", "5"), ("transfer-encoding", "chunked"),
    ("upgrade", "websocket"), ("te", "gzip"), ("te", "trailers, deflate"), ("te", ""),
  ]) func `fields of a connection of HTTP 1 are refused`(name: String, value: String) {
    #expect(refusal(Self.base + [(name, value)]) == .connectionSpecificField)
  }

  @Test func `te may say trailers`() { #expect(refusal(Self.base + [("te", "Trailers")]) == nil) }

  @Test(arguments: ["", "X", "xA", "x y", "x:", "x\r", "x\0", "x\u{e9}", "x\"", "\u{7f}"])
  func `a name is a token in lower case`(name: String) {
    #expect(refusal(Self.base + [(name, "y")]) == (name.isEmpty ? .emptyFieldName : .badFieldName))
  }

  @Test(
    arguments: [
      (" y", .whitespaceAroundValue), ("y\t", .whitespaceAroundValue), (" ", .whitespaceAroundValue), ("a\0", .nul),
      ("a\rb", .bareCarriageReturn), ("a\u{1}", .controlCharacter), ("a\u{7f}", .controlCharacter), ("a b\tc", nil),
      ("", nil), ("\u{e9}", nil),
    ] as [(String, HeadError?)])
  func `a value has no control characters, and no whitespace around it`(value: String, error: HeadError?) {
    #expect(refusal(Self.base + [("x", value)]) == error)
  }

  @Test func `a value with a line end is refused, whatever it is called`() {
    for value in ["a\nb", "a\r\nb", "\n"] { #expect(refusal(Self.base + [("x", value)]) != nil) }
  }

  @Test(
    arguments: [
      (nil, true, .none, nil), (nil, false, .chunked, nil), ("5", false, .length(5), nil), ("0", true, .length(0), nil),
      ("0", false, .length(0), nil), ("5", true, .none, .badContentLength), ("x", false, .none, .badContentLength),
      ("+5", false, .none, .badContentLength), ("5, 5", false, .none, .badContentLength),
      ("99999999999999999999", false, .none, .badContentLength), ("", false, .none, .badContentLength),
    ] as [(String?, Bool, BodyFraming, HeadError?)])
  func `the length and END_STREAM make the framing`(
    length: String?, endsStream: Bool, framing: BodyFraming, error: HeadError?
  ) {
    let (read, refusal) = read(Self.base + (length.map { [("content-length", $0)] } ?? []), endsStream: endsStream)
    #expect(refusal == error)
    if error == nil { #expect(read.framing == framing) }
  }

  @Test func `two lengths and two authorizations are refused`() {
    let lengths: [Field] = [("content-length", "5"), ("content-length", "5")]
    #expect(refusal(Self.base + lengths, endsStream: false) == .repeatedContentLength)
    #expect(refusal(Self.base + [("authorization", "a"), ("authorization", "a")]) == .repeatedAuthorization)
  }

  @Test func `an extended CONNECT for a WebSocket becomes a GET with Upgrade`() {
    let connect = replacing(":method", "CONNECT") + [(":protocol", "websocket")]
    let head = RequestHead()
    let (read, error) = read(connect + [("sec-websocket-version", "13")], endsStream: false, head: head)
    #expect(error == nil && head.isExtendedConnect && head.mayBecomeTunnel)
    #expect(read.method == "GET" && read.target == "/a?b=c" && read.upgrade == "websocket" && read.framing == .none)
    let names = read.fields.compactMap { $0.split(separator: ":").first }
    #expect(names == ["host", "sec-websocket-version", "connection", "upgrade", "sec-websocket-key"])
    // 16 random bytes, another time others (RFC 6455 §4.1).
    let again = self.read(connect, endsStream: false, head: head).0
    #expect(read.fields.last?.count == "sec-websocket-key: ".count + 24 && again.fields.last != read.fields.last)
    // Nothing of it is left for the next request.
    #expect(self.read(Self.base, head: head).0.upgrade == nil && !head.isExtendedConnect)
    #expect(refusal(replacing(":method", "CONNECT") + [(":protocol", "tcp")]) == .unknownProtocol)
    #expect(refusal(Self.base + [(":protocol", "websocket")]) == .badPseudoField)
  }

  @Test func `limits hold: of a field, of the head, and of the number of fields`() {
    func field(_ count: Int) -> Field { ("x", String(repeating: "y", count: count)) }
    let limits = HeadLimits(lineBytes: 100, headBytes: 1000, fields: 10)
    // As in nginx, a name and a value may each be as large as a buffer, and pseudo-fields are no lines.
    #expect(refusal(Self.base + [field(100)], limits: limits) == nil)
    #expect(refusal(Self.base + [field(101)], limits: limits) == .fieldTooLarge)
    #expect(refusal(Self.base + [(String(repeating: "x", count: 101), "y")], limits: limits) == .fieldTooLarge)
    #expect(refusal(replacing(":path", "/" + String(repeating: "y", count: 99)), limits: limits) == nil)
    #expect(refusal(replacing(":path", "/" + String(repeating: "y", count: 100)), limits: limits) == .fieldTooLarge)
    #expect(refusal(Self.base + [Field](repeating: field(1), count: 10), limits: limits) == nil)
    #expect(refusal(Self.base + [Field](repeating: field(1), count: 11), limits: limits) == .tooManyFields)
    let base = Self.base.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count }
    let ten = [Field](repeating: field(95), count: 10)
    #expect(refusal(Self.base + ten, limits: HeadLimits(headBytes: base + 960)) == nil)
    #expect(refusal(Self.base + ten, limits: HeadLimits(headBytes: base + 959)) == .headTooLarge)
  }
}
