import Bytes
import Testing

@testable import Crypto

@Suite struct `How a responder is asked` {
  private let question = [UInt8](repeating: 0xFB, count: 60)

  @Test func `by GET, the question in Base64 and percent-encoded behind the responder's path`() throws {
    for (url, start) in [("http://a.test/", "/"), ("http://a.test", "/"), ("http://a.test/ocsp", "/ocsp/")] {
      let path = try #require(StatusResponder(url)?.getPath([0xFB, 0xEF, 0xFF, 0x01]))
      #expect(path == start + "%2B%2B%2F%2FAQ%3D%3D", "\(url)")
    }
  }

  /// RFC 5019 §5: 255 bytes with scheme, server name and question.
  @Test func `by GET up to 255 bytes, by POST from 256 on`() throws {
    let encoded = try #require(StatusResponder("http://a.test/")?.getPath(question)).utf8.count - 1
    let room = 255 - "http://a.test/".utf8.count - 1 - encoded
    func path(_ count: Int) throws -> String? {
      try #require(StatusResponder("http://a.test/" + String(repeating: "p", count: count))).getPath(question)
    }
    #expect(try path(room)?.utf8.count == 255 - "http://a.test".utf8.count)
    #expect(try path(room + 1) == nil)
    let withPort = try #require(StatusResponder("http://a.test:8080/" + String(repeating: "p", count: room)))
    #expect(withPort.getPath(question) == nil)
  }

  @Test func `by POST where the responder's URL has a query`() throws {
    #expect(try #require(StatusResponder("http://a.test/?x=1")).getPath(question) == nil)
  }
}
