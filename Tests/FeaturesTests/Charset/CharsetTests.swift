import Bytes
@testable import Features
@testable import Forward
import HTTP
import Testing
@testable import Traffic

@Suite struct `The charset of a response` {
  private func type(_ directives: String, _ sent: String, query: String = "", status: String = "200 OK") throws
    -> String?
  {
    let rig = try Rig.passing(directives)
    let client = try rig.asked(["GET /\(query) HTTP/1.1", "Host: h"])
    try rig.upstream.answer("HTTP/1.1 \(status)\r\nContent-Type: \(sent)\r\nContent-Length: 0\r\n\r\n")
    return client.head.split(separator: "\r\n").first { $0.hasPrefix("Content-Type: ") }.map {
      String($0.dropFirst(14))
    }
  }

  @Test(arguments: [
    ("charset utf-8;", "text/html", "text/html; charset=utf-8"),
    ("charset utf-8;", "Text/HTML", "Text/HTML; charset=utf-8"),
    ("charset utf-8;", "text/html; charset=koi8-r", "text/html; charset=koi8-r"),
    ("charset utf-8;", "image/png", "image/png"),
    ("charset utf-8; charset_types *;", "image/png", "image/png; charset=utf-8"),
    ("charset utf-8; charset_types A/B;", "a/b", "a/b; charset=utf-8"),
    ("charset utf-8; charset_types a/b;", "text/html", "text/html; charset=utf-8"),
    ("charset utf-8; charset_types a/b;", "text/plain", "text/plain"),
    ("charset off;", "text/html", "text/html"), ("charset $arg_c;", "text/html", "text/html"),
  ])
  func `is named where a type of the list has no parameter`(directives: String, sent: String, got: String) throws {
    #expect(try type(directives, sent) == got)
  }

  @Test func `is named in no redirect`() throws {
    #expect(try type("charset utf-8;", "text/html", status: "301 Moved") == "text/html")
    #expect(try type("charset utf-8;", "text/html", status: "303 Other") == "text/html; charset=utf-8")
  }

  @Test(arguments: [("utf-8", true), ("a;b=c", false), ("a,b", false), ("\"a\"", false), ("a%20b", false), ("", false)])
  func `that a request names is a name, and no other parameter`(value: String, isTaken: Bool) throws {
    let got = try type("charset $arg_c;", "text/html", query: "?c=\(value)")
    #expect(got == (isTaken ? "text/html; charset=\(value)" : "text/html"))
  }
}
