@testable import Features
import Testing
@testable import Traffic

@Suite struct `The empty image` {
  private func answer(_ method: String, _ field: String = "X: y") throws -> String {
    try Rig("server { listen 80; location / { empty_gif; } }").answer(
      "\(method) / HTTP/1.1\r\nHost: h\r\n\(field)\r\n\r\n")
  }

  @Test func `goes to GET and HEAD`() throws {
    let got = try answer("GET")
    #expect(got.hasPrefix("HTTP/1.1 200 ") && got.contains("Content-Type: image/gif\r\n"))
    #expect(got.contains("Content-Length: 43\r\n"))
    #expect(got.contains("Last-Modified: Mon, 28 Sep 1970 06:00:00 GMT") && got.contains("\r\n\r\nGIF89a"))
    let head = try answer("HEAD")
    #expect(head.contains("Content-Length: 43") && !head.contains("GIF89a"))
    #expect(try answer("POST").hasPrefix("HTTP/1.1 405 "))
  }

  @Test func `isn't sent to a client that has it`() throws {
    let got = try answer("GET", "If-Modified-Since: Mon, 28 Sep 1970 06:00:00 GMT")
    #expect(got.hasPrefix("HTTP/1.1 304 ") && !got.contains("GIF89a"))
    #expect(try answer("GET", "If-Modified-Since: Mon, 28 Sep 1970 06:00:01 GMT").hasPrefix("HTTP/1.1 200 "))
  }
}
