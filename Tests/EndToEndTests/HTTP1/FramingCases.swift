/// One request, or what an attacker sends in place of one. `/cN.` in its bytes is its own mark, `/sN.` marks a request
/// that it tries to smuggle, N being its number. LENGTH is the number of bytes after the head.
struct FramingCase: Sendable {
  let group: String
  /// A character is one byte, by its code point.
  let text: String

  /// The bytes of the case with this number.
  func bytes(_ number: Int) -> [UInt8] {
    let marked = text.replacing("/c", with: "/c\(number).").replacing("/s", with: "/s\(number).")
    let rest = marked.firstRange(of: "\r\n\r\n").map { marked[$0.upperBound...].unicodeScalars.count } ?? 0
    return marked.replacing("LENGTH", with: "\(rest)").unicodeScalars.map { UInt8(truncatingIfNeeded: $0.value) }
  }

  var shown: String { "\(group): \(text.debugDescription)" }
}

/// Malformed and ambiguous requests, by what they vary.
enum FramingCases {
  static let all: [FramingCase] =
    lengths + codings + codingNames + chunks + lineEnds + requestLines + hosts + fields + everyByte

  /// Bytes of a body, by one of the readings.
  private static let smuggled = "GET /s HTTP/1.1\r\nHost: h\r\n\r\n"
  /// A request of the client's own.
  private static let pipelined = "GET /p HTTP/1.1\r\nHost: h\r\n\r\n"

  private static func group(_ name: String, _ texts: [String]) -> [FramingCase] {
    texts.map { FramingCase(group: name, text: $0) }
  }

  private static func post(_ fields: String, _ body: String) -> String {
    "POST /c HTTP/1.1\r\nHost: h\r\n\(fields)\r\n\r\n\(body)"
  }

  static let lengths: [FramingCase] = {
    let values = [
      "3", " 3", "3 ", "\t3", "3\t", "+3", "-3", "0x3", "3,3", "3, 4", "3;", "3 3", "003", "3.0", "3e0", "", " ",
      "18446744073709551619", "9223372036854775808", "4294967299", "\u{d9}\u{a3}", "3\0", "\"3\"", "3\u{0b}", "3_0",
      "\u{0b}3", "3\u{0c}", "3\u{85}", "3\u{a0}", "3\r", "a", "3a", "-0", "+0", "00000000000000000000000000003",
    ]
    let pairs = [
      ("Content-Length: 3\r\nContent-Length: 3"), ("Content-Length: 3\r\nContent-Length: 0"),
      ("Content-Length: 0\r\nContent-Length: 3"), ("Content-Length: 3\r\ncontent-length: 3"),
      ("Content-Length: 3\r\nContent-Length: 03"), ("Content-Length: 3\r\nContent-Length:"),
      ("Content-Length: 0\r\nContent_Length: 3"), ("Content-Length: 0\r\nContent-Length : 3"),
      ("Content-Length: 0\r\n Content-Length: 3"), ("Content-Length: 0\r\nContent-Length\0: 3"),
      ("Content-Length: 0\r\nX: y\nContent-Length: 3"), ("Content-Length: 0\r\nX: y\rContent-Length: 3"),
      ("Content-Length: 3\r\nConnection: Content-Length"), ("Content-Length: 3\r\nExpect: 100-continue"),
      ("Content-Length: 3\r\nExpect: 200-ok"), ("Content-Length: 3\r\nExpect: 100-continue, x"),
    ]
    return group("Content-Length", values.map { post("Content-Length: \($0)", "abc") })
      + group("two Content-Lengths", pairs.map { post($0, "abc") })
      + group(
        "0.CL",
        [
          "GET /c HTTP/1.1\r\nHost: h\r\nContent-Length: LENGTH\r\n\r\n\(smuggled)",
          "HEAD /c HTTP/1.1\r\nHost: h\r\nContent-Length: LENGTH\r\n\r\n\(smuggled)",
          "DELETE /c HTTP/1.1\r\nHost: h\r\nContent-Length: LENGTH\r\n\r\n\(smuggled)",
          "OPTIONS /c HTTP/1.1\r\nHost: h\r\nContent-Length: LENGTH\r\n\r\n\(smuggled)",
          "GET /c HTTP/1.0\r\nHost: h\r\nContent-Length: LENGTH\r\n\r\n\(smuggled)",
          "DELETE /c HTTP/1.0\r\nHost: h\r\nContent-Length: LENGTH\r\n\r\n\(smuggled)",
          "GET /c HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\nContent-Length: LENGTH\r\n\r\n\(smuggled)",
          "GET /c HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n\(smuggled)",
          "GET /c HTTP/1.0\r\nHost: h\r\nContent-Length: LENGTH\r\nContent-Length: 0\r\n\r\n\(smuggled)",
          "POST /c HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n\(pipelined)",
        ])
  }()

  static let codings: [FramingCase] = {
    let values = [
      "chunked", "Chunked", "CHUNKED", "\tchunked", "chunked ", "chunked\t", "xchunked", "chunkedx",
      "chunked, identity",
      "identity, chunked", "identity", "gzip, chunked", "chunked, gzip", "chunked,chunked", "chunked;q=1",
      "\"chunked\"",
      "'chunked'", "chu nked", "\u{0b}chunked", "chunked\u{0b}", "\0chunked", "chunked\0", "", ",", ",chunked",
      "chunked,", "trailers", "deflate", "chunked chunked", "chun\u{e2}\u{84}\u{aa}ed", "\u{85}chunked",
      "\u{a0}chunked",
      "chunked\r\n identity", "\r\n chunked", "x\r\n chunked", "cow", "chunked\r\nTransfer-Encoding: chunked",
      "chunked\r\nTransfer-Encoding: identity", "identity\r\nTransfer-Encoding: chunked",
      "cow\r\nTransfer-Encoding: chunked",
      "chunked\r\nTransfer-Encoding: cow",
    ]
    let body = "0\r\n\r\n\(smuggled)"
    return values.flatMap { value in
      group("Transfer-Encoding", [post("Transfer-Encoding: \(value)", "3\r\nabc\r\n0\r\n\r\n")])
        + group(
          "CL.TE", [post("Content-Length: LENGTH\r\nTransfer-Encoding: \(value)", body)])
        + group("TE.CL", [post("Transfer-Encoding: \(value)\r\nContent-Length: 5", body)])
        + group(
          "TE in HTTP/1.0",
          ["POST /c HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\nTransfer-Encoding: \(value)\r\n\r\n0\r\n\r\n"])
    }
  }()

  static let codingNames: [FramingCase] = {
    let names = [
      "Transfer-Encoding ", "Transfer-Encoding\t", " Transfer-Encoding", "\tTransfer-Encoding", "Transfer_Encoding",
      "Transfer-Encoding\0", "Transfer-Encoding\u{0b}", "X: y\nTransfer-Encoding", "X: y\rTransfer-Encoding",
      "X: y\u{0b}Transfer-Encoding", "Transfer\r\n -Encoding", "transfer-encoding", "Transfer-Encoding\u{a0}",
      "\u{ef}\u{bb}\u{bf}Transfer-Encoding", "Transfer.Encoding", "Transfer-Encoding:", "\"Transfer-Encoding\"",
      "X:\r\nTransfer-Encoding", ":\r\nTransfer-Encoding", "Transfer Encoding", "Foo\r\nTransfer-Encoding",
    ]
    return group(
      "name of Transfer-Encoding",
      names.map { post("\($0): chunked\r\nContent-Length: LENGTH", "0\r\n\r\n\(smuggled)") }
        + names.map { post("Content-Length: 5\r\n\($0): chunked", "0\r\n\r\n\(pipelined)") })
      + group(
        "nominated by Connection",
        [
          post("Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked", "3\r\nabc\r\n0\r\n\r\n"),
          post("Connection: close, Content-Length\r\nContent-Length: 3", "abc"),
          post("Connection: Host\r\nContent-Length: 3", "abc"),
        ])
  }()

  static let chunks: [FramingCase] = {
    let sizes = [
      "3", "03", "0000000000000003", "00000000000000000000000000000003", "3 ", "3\t", " 3", "\t3", "3;ext", "3;ext=1",
      "3;ext=\"v\"", "3; ext", "3 ;ext", "3;", "3;;", "3;=", "3;\"", "0x3", "+3", "-3", "3h", "G", "", ";ext", "3\r",
      "3;a\rb", "3;a\0b", "3\0", "3,3", "3.", "3_", "FFFFFFFFFFFFFFFF", "10000000000000003", "8000000000000003",
      "100000003", "3\u{0b}", "3\u{a0}", "3 3", "３",
    ]
    let ends = ["\n", "\r", "", "XX", "\r\r\n", "\n\r", "x\r\n", " \r\n"]
    let lasts = [
      "0\r\n\r\n", "0\n\n", "0\r\n\n", "0\n\r\n", "00\r\n\r\n", "0;x\r\n\r\n", "-0\r\n\r\n", "0 \r\n\r\n", "0\r\r",
      "0\r\n\r", "0x0\r\n\r\n", "\r\n\r\n", "0\r\n \r\n\r\n",
    ]
    let trailers = [
      "A: b", "A : b", " A: b", "A", ": b", "A\0: b", "A: b\0", "A: b\rC: d", "Transfer-Encoding: chunked",
      "Content-Length: 3", "Host: x", "A: b\nC: d", "A:\u{7f}", "Authorization: x", "Connection: close",
    ]
    func chunked(_ body: String) -> String { post("Transfer-Encoding: chunked", body) }
    return group("chunk size", sizes.map { chunked("\($0)\r\nabc\r\n0\r\n\r\n") })
      + group("chunk size, bare LF", ["3", "3;x", "3 "].map { chunked("\($0)\nabc\r\n0\r\n\r\n") })
      + group("chunk end", ends.map { chunked("3\r\nabc\($0)0\r\n\r\n") })
      + group("last chunk", lasts.map { chunked("3\r\nabc\r\n\($0)") })
      + group("trailer", trailers.map { chunked("3\r\nabc\r\n0\r\n\($0)\r\n\r\n") })
      + group(
        "chunk hides a request",
        [
          chunked("3;\nx\r\nabc\r\n0\r\n\r\n"), chunked("3;\n\(smuggled)\r\nabc\r\n0\r\n\r\n"),
          chunked("3\r\nabcd\r\n0\r\n\r\n"), chunked("2\r\nabc\r\n0\r\n\r\n"), chunked("3\r\nab\r\n0\r\n\r\n"),
          chunked("5\r\nab\r\n0\r\n\r\n\(smuggled)"),
        ])
  }()

  static let lineEnds: [FramingCase] = group(
    "line end",
    [
      "GET /c HTTP/1.1\nHost: h\n\n", "GET /c HTTP/1.1\nHost: h\r\n\r\n", "GET /c HTTP/1.1\r\nHost: h\n\r\n",
      "GET /c HTTP/1.1\r\nHost: h\r\n\n", "GET /c HTTP/1.1\rHost: h\r\r", "GET /c HTTP/1.1\r\r\nHost: h\r\n\r\n",
      "GET /c HTTP/1.1\r\nHost: h\r\r\n\r\n", "GET /c HTTP/1.1\r\nHost: h\n\n\(pipelined)",
      "GET /c HTTP/1.1\r\nHost: h\r\nX: y\n\n\(pipelined)",
      "\r\nGET /c HTTP/1.1\r\nHost: h\r\n\r\n", "\nGET /c HTTP/1.1\r\nHost: h\r\n\r\n",
      "\r\n\r\n\r\n\r\nGET /c HTTP/1.1\r\nHost: h\r\n\r\n", "\rGET /c HTTP/1.1\r\nHost: h\r\n\r\n",
      " GET /c HTTP/1.1\r\nHost: h\r\n\r\n", "\0GET /c HTTP/1.1\r\nHost: h\r\n\r\n",
      "GET /c HTTP/1.1\r\nHost: h\r\n X: y\r\n\r\n", "GET /c HTTP/1.1\r\nX: y\r\n\tz\r\nHost: h\r\n\r\n",
      "GET /c HTTP/1.1\r\n Host: h\r\n\r\n", "GET /c HTTP/1.1\r\nHost: h\r\nX: y\r\n \r\n\r\n",
    ])

  static let requestLines: [FramingCase] = {
    let versions = [
      "", " ", " HTTP/1.0", " HTTP/1.2", " HTTP/1.9", " HTTP/2.0", " HTTP/2.1", " HTTP/3.0", " HTTP/9.9", " HTTP/0.9",
      " HTTP/0.0", " HTTP/1.1 ", " HTTP/1.1\t", " http/1.1", " HTTP/01.1", " HTTP/1.01", " HTTP/1.10", " HTTP/11.1",
      " HTTP/1", " HTTP/1.", " HTTP/.1", " HTTP/1,1", " HTTP/1.1x", " HTTP/1.1 x", " XTTP/1.1", " HTTP /1.1",
      " HTTP/ 1.1", " HTTP/1.1\0", "  HTTP/1.1", "\tHTTP/1.1", " \tHTTP/1.1", " HTTP/-1.1", " HTTP/1.-1", " HTTPS/1.1",
      " ICY/1.1", " HTTP/4294967297.1", " HTTP/1.4294967297", " HTTP/1.1;x", " RTSP/1.0", "\u{0b}HTTP/1.1",
    ]
    let targets = [
      "http://h/c", "HTTP://h/c", "http://other/c", "http://h@other/c", "http://u:p@h/c", "http://h,other/c",
      "http:///c", "http:/c", "http:c", "https://h/c", "ftp://h/c", "http://h:80/c", "http://h:99999/c", "http://h:x/c",
      "http://h?/c", "http://h#/c", "http://h /c", "http://[::1]/c", "http://[::1/c", "http://h\\@other/c", "//h/c",
      "c/c", "*/c", "/c#fragment", "/c\\x", "/c%00", "/c%2", "/c%zz", "/c%", "/c\u{80}", "/c space", "/c\tx",
      "/c\u{7f}",
      "/c\0x", "/c?\0", "/../../c", "/c/../../..", "/%2e%2e/%2e%2e/c", "/c|", "/c{}", "/c\"x\"", "/c<x>", "?/c", "/./c",
      "/c;x", "/c^`", "http://h%2fx/c", "http://h\0/c", "http://-/c", "/c?a=b#c", "javascript:/c",
    ]
    let methods = [
      "get", "Get", "GE T", "G\0T", "G@T", "G/T", "\"GET\"", "GET\t", "G\u{e9}T", "TRACE", "CONNECT", "PRI", "G=T",
      "A", String(repeating: "A", count: 300), "G(T", "M-SEARCH", "G_T", "g-t", "G:T", "G,T",
    ]
    return group("version", versions.map { "GET /c\($0)\r\nHost: h\r\n\r\n" })
      + group("target", targets.map { "GET \($0) HTTP/1.1\r\nHost: h\r\n\r\n" })
      + group("method", methods.map { "\($0) /c HTTP/1.1\r\nHost: h\r\n\r\n" })
      + group(
        "request line",
        [
          "GET  /c HTTP/1.1\r\nHost: h\r\n\r\n", "GET\t/c\tHTTP/1.1\r\nHost: h\r\n\r\n",
          "GET\u{0b}/c HTTP/1.1\r\nHost: h\r\n\r\n", "GET /c HTTP/1.1 GET /s HTTP/1.1\r\nHost: h\r\n\r\n",
          "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nGET /c HTTP/1.1\r\nHost: h\r\n\r\n",
          "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET /c HTTP/1.1\r\nHost: h\r\n\r\n",
          "\u{16}\u{03}\u{01}GET /c HTTP/1.1\r\nHost: h\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: h\r\nX: /c\r\n\r\n",
          "GET * HTTP/1.1\r\nHost: h\r\nX: /c\r\n\r\n", "CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\nX: /c\r\n\r\n",
          "GET /c HTTP/1.1\r\nHost: h\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
        ])
  }()

  static let hosts: [FramingCase] = {
    let values = [
      "", " ", "h,other", "u@h", "u:p@h", "h other", "h/x", "h?x", "h#x", "h:80:80", "h:", "h:x", "h:99999", "h:-1",
      "h:0", "[::1]", "[::1", "::1", "[ab..cd::1]", "[::1]x", "[::1]:x", "[v1.x]", "h\\x", "h%2fx", "h%00", "-", "*",
      "h;x", "h\"", "h<", "h\u{80}", "h\0", "h\t", ".", "..", "h..x", "h.", "h_x", "http://h", "h\r\n other", "h|x",
      "h^x", "h`x", "h{x}", "h'x", "h!x", "h$x", "h&x", "h(x)", "h=x", "h+x", "h~x",
    ]
    return group("Host", values.map { "GET /c HTTP/1.1\r\nHost: \($0)\r\n\r\n" })
      + group(
        "Hosts",
        [
          "GET /c HTTP/1.1\r\n\r\n", "GET /c HTTP/1.0\r\n\r\n", "GET /c HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n",
          "GET /c HTTP/1.1\r\nHost: h\r\nHost: other\r\n\r\n", "GET /c HTTP/1.1\r\nHost: h\r\nhost: other\r\n\r\n",
          "GET /c HTTP/1.1\r\nHost : h\r\n\r\n", "GET /c HTTP/1.0\r\nHost: h\r\nHost: other\r\n\r\n",
          "GET http://other/c HTTP/1.1\r\n\r\n", "GET http://other/c HTTP/1.1\r\nHost:\r\n\r\n",
          "GET /c HTTP/1.1\r\nHost:\r\nHost: h\r\n\r\n",
        ])
  }()

  static let fields: [FramingCase] = group(
    "field",
    [
      "GET /c HTTP/1.1\r\nHost: h\r\nX\r\n\r\n", "GET /c HTTP/1.1\r\nHost: h\r\n: y\r\n\r\n",
      "GET /c HTTP/1.1\r\nHost: h\r\nX y: z\r\n\r\n", "GET /c HTTP/1.1\r\nHost: h\r\nX : z\r\n\r\n",
      "GET /c HTTP/1.1\r\nHost: h\r\nX:\r\n\r\n", "GET /c HTTP/1.1\r\nHost: h\r\n:\r\n\r\n",
      "GET /c HTTP/1.1\r\nHost: h\r\n::\r\n\r\n", "GET /c HTTP/1.1\r\nHost: h\r\n\"X\": y\r\n\r\n",
      "GET /c HTTP/1.1\r\nHost: h\r\nConnection: close, close, keep-alive\r\n\r\n",
      "GET /c HTTP/1.1\r\nHost: h\r\nTE: chunked\r\n\r\n",
      "GET /c HTTP/1.1\r\nHost: h\r\nTrailer: Content-Length\r\n\r\n",
      "GET /c HTTP/1.1\r\nHost: h\r\nIf-Match: a\r\nIf-Match: b\r\n\r\n",
      "GET /c HTTP/1.1\r\nHost: h\r\nRange: bytes=0-\r\nRange: bytes=1-\r\n\r\n",
      "GET /c HTTP/1.1\r\nHost: h\r\nX: \(String(repeating: "a", count: 70_000))\r\n\r\n",
      "GET /c HTTP/1.1\r\nHost: h\r\n\(String(repeating: "a", count: 70_000)): b\r\n\r\n",
      "GET /c?\(String(repeating: "a", count: 70_000)) HTTP/1.1\r\nHost: h\r\n\r\n",
      "GET /c HTTP/1.1\r\nHost: h\r\n\(String(repeating: "X: y\r\n", count: 20_000))\r\n",
    ])

  /// Each byte in a name, a value, a target and a Host.
  static let everyByte: [FramingCase] = (0...255).flatMap { byte -> [FramingCase] in
    let character = String(Unicode.Scalar(UInt8(byte)))
    return [
      FramingCase(group: "byte in a name", text: "GET /c HTTP/1.1\r\nHost: h\r\nX\(character)A: b\r\n\r\n"),
      FramingCase(group: "byte in a value", text: "GET /c HTTP/1.1\r\nHost: h\r\nX: b\(character)c\r\n\r\n"),
      FramingCase(group: "byte in a target", text: "GET /c\(character)x HTTP/1.1\r\nHost: h\r\n\r\n"),
      FramingCase(group: "byte in a Host", text: "GET /c HTTP/1.1\r\nHost: h\(character)x\r\n\r\n"),
      FramingCase(group: "byte in a method", text: "GE\(character)T /c HTTP/1.1\r\nHost: h\r\n\r\n"),
    ]
  }
}
