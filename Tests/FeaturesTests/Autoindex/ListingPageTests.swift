@testable import Features
@testable import Files
import Testing

/// The text of a folder's list, for names of any bytes.
@Suite struct `Pages of lists` {
  private func entry(_ name: [UInt8], _ kind: FileFacts.Kind = .regular, size: UInt64 = 7) -> ServedFolder.Entry {
    // 2026-11-09 08:07:06 UTC
    ServedFolder.Entry(name: name, facts: FileFacts(kind: kind, size: size, modified: 1_794_211_626))
  }

  private func entry(_ name: String, _ kind: FileFacts.Kind = .regular, size: UInt64 = 7) -> ServedFolder.Entry {
    entry(Array(name.utf8), kind, size: size)
  }

  private func text(
    _ format: Autoindex.Format, _ entries: [ServedFolder.Entry], exact: Bool = true, offset: Int64? = nil,
    callback: String = "", uri: String = "/"
  ) -> String {
    let settings = Autoindex(isOn: true, format: format, showsExactSizes: exact, showsLocalTime: offset != nil)
    var page = ListingPage(settings, Array(uri.utf8), offset: offset)
    page.callback = Array(callback.utf8)
    let bytes = page.text(entries)
    #expect(String(validating: bytes, as: UTF8.self) != nil, "well-formed")
    return String(decoding: bytes, as: UTF8.self)
  }

  private func lines(_ text: String) -> [String] {
    text.split(separator: "\r\n").filter { $0.hasPrefix("<a ") }.map(String.init)
  }

  @Test func `HTML has folders first, sizes to the byte or rounded, and times of a zone`() {
    let entries = [entry("b.txt", size: 10_752), entry("a", .folder), entry("B", size: 9999)]
    let pad = String(repeating: " ", count: 48)
    #expect(
      lines(text(.html, entries)) == [
        "<a href=\"a/\">a/</a>\(pad) 09-Nov-2026 08:07                   -",
        "<a href=\"B\">B</a>\(pad)  09-Nov-2026 08:07                9999",
        "<a href=\"b.txt\">b.txt</a>\(pad.dropLast(3)) 09-Nov-2026 08:07               10752",
      ])
    let local = lines(text(.html, entries, exact: false, offset: -9 * 3600))
    #expect(local[0].hasSuffix(" 08-Nov-2026 23:07       -"))
    #expect(local[1].hasSuffix(" 08-Nov-2026 23:07    9999"))
    #expect(local[2].hasSuffix("     11K"))
  }

  @Test(arguments: [
    (0, "0"), (9999, "9999"), (10_000, "10K"), (10_751, "10K"), (10_752, "11K"), ((1 << 20) - 1, "1024K"),
    (1 << 20, "1M"), (3 << 19, "2M"), (1 << 30, "1G"), ((1 << 30) + (1 << 29), "2G"),
  ])
  func `a size is rounded as nginx rounds it`(size: Int, rounded: String) {
    let line = lines(text(.html, [entry("a", size: UInt64(size))], exact: false))[0]
    #expect(line.hasSuffix(String(repeating: " ", count: 8 - rounded.count) + rounded))
  }

  @Test func `a long name is cut between characters, and its link isn't`() {
    let name = String(repeating: "ä", count: 60)
    let line = lines(text(.html, [entry(name), entry(String(repeating: "x", count: 50), .folder)]))
    #expect(line[1].contains("\">\(String(repeating: "ä", count: 47))..&gt;</a> 09-"))
    #expect(line[1].contains("<a href=\"\(String(repeating: "%C3%A4", count: 60))\">"))
    #expect(line[0].contains("/\">\(String(repeating: "x", count: 50))</a> 09-"))
  }

  private static let odd: [[UInt8]] = [
    Array("<script>alert('&\"')</script>".utf8), Array("javascript:alert(1)".utf8), Array("a?b#c%41 d".utf8),
    Array("line\r\nX: y".utf8), [0x1B, 0x5B, 0x41], [0xFF, 0xFE, 0xC3], Array("\u{2028}\u{85}\u{FFFE}".utf8),
    Array("\\\"]}".utf8), Array("]]>".utf8), Array("..%2f".utf8),
  ]

  @Test(arguments: odd) func `no name leaves its place in HTML`(name: [UInt8]) throws {
    let line = try #require(lines(text(.html, [entry(name)])).first)
    #expect(lines(text(.html, [entry(name)])).count == 1)
    let link = try #require(line.dropFirst(9).split(separator: "\"").first)
    #expect(link.utf8.allSatisfy { "ABCDEFabcdefghijklmnopqrstuvwxyzX0123456789%-._~".utf8.contains($0) }, "\(link)")
    let shown = line.dropFirst(9 + link.utf8.count + 2).prefix { $0 != "<" }
    #expect(!shown.contains(">") && !shown.contains("\"") && !shown.unicodeScalars.contains { $0.value < 0x20 })
  }

  @Test(arguments: odd) func `no name leaves its place in XML and JSON`(name: [UInt8]) {
    let xml = text(.xml, [entry(name)]).split(separator: "\r\n")
    #expect(xml.count == 4 && xml[2].hasPrefix("<file mtime=\"2026-11-09T08:07:06Z\" size=\"7\">"))
    #expect(xml[2].filter { $0 == "<" }.count == 2 && xml[2].hasSuffix("</file>"))
    #expect(!xml[2].unicodeScalars.contains { $0.value < 0x20 || $0.value == 0xFFFE })
    let json = text(.json, [entry(name)]).split(separator: "\r\n")
    #expect(json.count == 3 && json[1].hasPrefix("{ \"name\":\""))
    #expect(json[1].hasSuffix("\", \"type\":\"file\", \"mtime\":\"Mon, 09 Nov 2026 08:07:06 GMT\", \"size\":7 }"))
    #expect(!json[1].unicodeScalars.contains { $0.value < 0x20 || $0.value == 0x2028 })
  }

  @Test func `XML and JSON name kinds, and sizes of files alone`() {
    let entries = [entry("f", .other), entry("d", .folder)]
    #expect(
      text(.xml, entries)
        == "<?xml version=\"1.0\"?>\r\n<list>\r\n<directory mtime=\"2026-11-09T08:07:06Z\">d</directory>\r\n"
        + "<other mtime=\"2026-11-09T08:07:06Z\">f</other>\r\n</list>\r\n")
    let date = "\"mtime\":\"Mon, 09 Nov 2026 08:07:06 GMT\""
    #expect(
      text(.json, entries)
        == "[\r\n{ \"name\":\"d\", \"type\":\"directory\", \(date) },\r\n{ \"name\":\"f\", \"type\":\"other\", \(date) }\r\n]"
    )
    #expect(text(.json, []) == "[\r\n]")
    #expect(text(.jsonp, [], callback: "a.b") == "/* callback */\r\na.b([\r\n]);")
    #expect(text(.jsonp, []) == "[\r\n]")
  }

  @Test func `the path in the title is text`() {
    #expect(text(.html, [], uri: "/<b>&\"/").contains("<title>Index of /&lt;b&gt;&amp;&quot;/</title>"))
  }

  @Test(arguments: [
    ("", true), ("a.b_C9", true), ("a(b", false), ("a\u{AA}", false), (String(repeating: "a", count: 129), false),
    ("a%41", false), ("[x]", false), ("@", false), ("`", false),
  ])
  func `a callback is a name`(name: String, isTaken: Bool) {
    #expect(Array(name.utf8).withUnsafeBytes(ListingPage.isFunction) == isTaken)
  }
}
