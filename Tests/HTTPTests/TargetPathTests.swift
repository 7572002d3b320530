import Bytes
import HTTP
import Testing

@Suite struct `Target paths` {
  func normalized(_ path: String, merging: Bool = true) -> String? {
    var output = ByteBuffer()
    output.append("x")
    let isTaken = withBytes(path) { TargetPath.normalize(path: $0, mergeSlashes: merging, into: &output) }
    let text = output.readable.text
    if !isTaken { #expect(text == "x") }
    return isTaken ? String(text.dropFirst()) : nil
  }

  // The right column is what nginx 1.28 has in $uri.
  @Test(
    arguments: [
      ("/", "/"), ("", "/"), ("/a/b", "/a/b"), ("/a//b", "/a/b"), ("///", "/"), ("/a/./b", "/a/b"), ("/a/../b", "/b"),
      ("/a/b/..", "/a/"), ("/a/.", "/a/"), ("/.", "/"), ("/a/..", "/"), ("/a/b/../../c", "/c"), ("/...", "/..."),
      ("/a..b", "/a..b"), ("/.a", "/.a"), ("/..a", "/..a"), ("/a.", "/a."), ("/%61", "/a"), ("/a%2fb", "/a/b"),
      ("/a%2Fb", "/a/b"),
      ("/a/%2e%2e/b", "/b"), ("/a/.%2e/b", "/b"), ("/a%2f..%2fb", "/b"), ("/%25", "/%"), ("/%2541", "/%41"),
      ("/%3f", "/?"),
      ("/%23", "/#"), ("/a%20b", "/a b"), ("/%c3%a9", "/é"), ("/a/%2f/b", "/a/b"), ("//../a", nil), ("/a/.//b", "/a/b"),
      ("/..", nil), ("/../a", nil), ("/a/../..", nil), ("/%2e%2e", nil), ("/%00", nil), ("/%", nil), ("/%4", nil),
      ("/%4g", nil),
      ("/%gg", nil), ("a", nil), ("/a/%2e%2e/%2e%2e/b", nil), ("/a+b", "/a+b"), ("/a//../b", "/b"), ("/a/./", "/a/"),
    ] as [(String, String?)])
  func `a path is decoded, resolved and merged as nginx does`(path: String, expected: String?) {
    #expect(normalized(path) == expected)
  }

  @Test(
    arguments: [
      ("/a//b", "/a//b"), ("//", "//"), ("/a//../b", "/a/b"), ("/a/.//b", "/a//b"), ("//../a", "/a"),
      ("/a/./b", "/a/b"),
    ] as [(String, String?)])
  func `slashes stay when they are not merged`(path: String, expected: String?) {
    #expect(normalized(path, merging: false) == expected)
  }

  @Test func `a decoded path is escaped as nginx does`() {
    var output = ByteBuffer()
    withBytes("/a b?c#d%e\"<>\\^`{|}\u{1}é;&=+~") { TargetPath.escape($0, into: &output) }
    #expect(output.readable.text == "/a%20b%3Fc%23d%25e%22%3C%3E%5C%5E%60%7B%7C%7D%01%C3%A9;&=+~")
    output.removeAll()
    withBytes("/plain/path") { TargetPath.escape($0, into: &output) }
    #expect(output.readable.text == "/plain/path")
  }
}
