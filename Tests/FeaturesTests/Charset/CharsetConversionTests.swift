import Bytes
import ConfigurationSupport
@testable import Features
@testable import Forward
import HTTP
import Testing
@testable import Traffic

@Suite struct `Conversion of charsets` {
  private static let maps = """
    charset_map koi8-r utf-8 { C0 D18E ; C1 D0B0 ; 80 E282AC ; }
    charset_map koi8-r windows-1251 { C0 FE; C1 E0; }
    """

  /// The bytes of the response's body in hexadecimal, as the client got them, and its head.
  private func answer(_ directives: String, type: String = "text/html", _ body: [UInt8], fields: String = "") throws
    -> (body: [UInt8], head: String)
  {
    let rig = try Rig.passing(directives, http: Self.maps)
    let client = try rig.asked(["GET /?c=windows-1251 HTTP/1.1", "Host: h"])
    try rig.upstream.answer(
      "HTTP/1.1 200 OK\r\nContent-Type: \(type)\r\nETag: \"1\"\r\n\(fields)Content-Length: \(body.count)\r\n\r\n")
    try rig.upstream.answer(body)
    return (client.bytes, client.head)
  }

  @Test(arguments: [
    ("charset utf-8; source_charset koi8-r;", "text/html", [0x61, 0xC0, 0xC1, 0xFF], "aюа?", "utf-8"),
    ("charset koi8-r; source_charset utf-8;", "text/html", Array("aюЖ".utf8), "a\u{C0}&#1046;", "koi8-r"),
    ("charset windows-1251; source_charset KOI8-R;", "text/html", [0xC0, 0xC2], "\u{FE}?", "windows-1251"),
    ("charset $arg_c; source_charset koi8-r;", "text/html", [0xC1], "\u{E0}", "windows-1251"),
    ("charset utf-8; override_charset on;", "text/html; charset=\"koi8-r\"", [0xC0], "ю", "utf-8"),
    ("charset utf-8; override_charset on;", "image/png;charset=koi8-r", [0xC0], "ю", "utf-8"),
  ])
  func `is done for bodies whose charset is known`(
    directives: String, type: String, body: [UInt8], got: String, charset: String
  ) throws {
    let response = try answer(directives, type: type, body)
    let expected = charset == "utf-8" ? Array(got.utf8) : got.unicodeScalars.map { UInt8(clamping: $0.value) }
    #expect(response.body == expected && response.head.contains("charset=\(charset)\r\n"), "\(response)")
    #expect(response.head.contains("ETag: W/\"1\"\r\n"))
    #expect(response.head.contains("Content-Length: ") == (charset == "windows-1251"))
  }

  @Test(arguments: [
    ("charset utf-8; source_charset koi8-r;", "text/html; charset=koi8-r", ""),
    ("charset utf-8; source_charset koi8-r;", "image/png", ""),
    ("charset off; source_charset koi8-r;", "text/html", ""),
    ("charset utf-8; override_charset on;", "text/html; charset=koi8-u", ""),
    ("charset utf-8; source_charset koi8-r;", "text/html", "Content-Encoding: br\r\n"),
  ])
  func `leaves the others as they are`(directives: String, type: String, fields: String) throws {
    let response = try answer(directives, type: type, [0xC0], fields: fields)
    #expect(response.body == [0xC0] && response.head.contains("Content-Type: \(type)\r\n"), "\(response)")
    #expect(response.head.contains("ETag: \"1\"\r\n") && response.head.contains("Content-Length: 1\r\n"))
  }

  @Test func `UTF-8 is read the same however it is cut, and what is none becomes a question mark`() {
    let table = CharsetTable.fromUTF8([0x20AC: 0x80, 0x1F600: 0x81])
    let body: [UInt8] = Array("a€😀Ä".utf8) + [0xE2, 0x82, 0x41, 0xC0, 0xED, 0xA0, 0x80, 0xF0, 0x9F]
    func converted(_ cuts: [Int]) -> [UInt8] {
      var converter = CharsetConverter(table), output = ByteBuffer(), start = 0
      for end in cuts + [body.count] {
        Array(body[start..<end]).withUnsafeBytes { converter.convert($0, to: &output) }
        start = end
      }
      converter.finish(to: &output)
      return Array(output.readable)
    }
    let whole = converted([])
    #expect(whole == [0x61, 0x80, 0x81] + Array("&#196;?A????".utf8) + [0x3F], "\(whole)")
    for first in 0...body.count { for second in first...body.count { #expect(converted([first, second]) == whole) } }
  }

  @Test(arguments: [
    ("charset_map a a { }", "\"charset_map\" from \"a\" to \"a\""),
    ("charset_map utf-8 a { }", "\"charset_map\" from \"utf-8\" to \"a\""),
    ("charset_map a b { } charset_map B A { }", "duplicate \"charset_map\" between \"B\" and \"A\""),
    ("charset_map a b { 1G 20; }", "invalid line in \"charset_map\""),
    ("charset_map a b { C0 D18E; }", "invalid line in \"charset_map\""),
    ("charset_map a utf-8 { C0 D1; }", "invalid line in \"charset_map\""),
    ("charset a; source_charset b;", "no \"charset_map\" between the charsets \"b\" and \"a\""),
  ])
  func `what a table can't mean is an error`(lines: String, problem: String) {
    let errors = LoadedText("http { \(lines) server { listen 80; return 204; } }").errors
    #expect(errors.contains { $0.contains(problem) }, "\(errors)")
  }
}
