import Bytes
@testable import Features
@testable import Forward
import HTTP
import TestSupport
import Testing
@testable import Traffic
import Transport

@Suite struct `Answers of our own` {
  private func body(_ answer: String) -> String { answer.split(separator: "\r\n\r\n").last.map(String.init) ?? "" }

  @Test func `nginx's private codes are 400 on the wire`() {
    for code in 494...497 { #expect(ErrorResponse(code).status == 400) }
    #expect(ErrorResponse(421).status == 421)
    #expect(ErrorResponse(413).blamesRequest && !ErrorResponse(500).blamesRequest && ErrorResponse(500).endsConnection)
    #expect(!ErrorResponse(502).endsConnection && !ErrorResponse(404).endsConnection)
  }

  @Test(arguments: [
    ("", "http://h.test/x"), ("server_name_in_redirect on;", "http://s.test/x"), ("absolute_redirect off;", "/x"),
  ])
  func `a redirect is absolute as it is asked to be`(directives: String, place: String) throws {
    #expect(try Rig.answer(of: "\(directives) location / { return 302 /x; }").contains("\r\nLocation: \(place)\r\n"))
  }

  @Test func `variables have nginx's values`() throws {
    let text = """
      $request_method|$uri|$request_uri|$args|$is_args|$arg_b|$host|$http_x_y|$cookie_c|$scheme|$server_name|\
      $remote_addr|$remote_port|$server_protocol|$https|$content_type|$request
      """
    let answer = try Rig.answer(
      of: "location / { return 200 \"\(text)\"; }", "/a%20b/../c?a=1&B=2",
      "X-Y: one\r\nCookie: x=y; c=d\r\nContent-Type: t/p\r\n")
    #expect(
      body(answer)
        == "GET|/c|/a%20b/../c?a=1&B=2|a=1&B=2|?|2|h.test|one|d|http|s.test|192.0.2.1|4711|HTTP/1.1||t/p|"
        + "GET /a%20b/../c?a=1&B=2 HTTP/1.1")
  }

  @Test func `requests on one connection are answered in order`() throws {
    let rig = try Rig("server { listen 1080; location / { return 200 \"<$uri>\"; } }")
    let answer = try rig.answer((1...3).map { "GET /\($0) HTTP/1.1\r\nHost: a\r\n\r\n" }.joined())
    #expect(
      answer.split(separator: "\r\n\r\n").compactMap { $0.split(separator: "HTTP").first }.filter { $0.hasPrefix("<") }
        == ["</1>", "</2>", "</3>"])
  }

  @Test(arguments: [
    ("GET / HTTP/1.1", "Host: h:8443", "<8443|h:8443>"), ("GET / HTTP/1.1", "Host: h", "<|h>"),
    ("GET / HTTP/1.1", "Host: h:", "<|h>"), ("GET http://h:81/ HTTP/1.1", "Host: h:81", "<81|h:81>"),
    ("GET / HTTP/1.1", "Host: [::1]:8", "<8|[::1]:8>"),
  ]) func `the port of a request is that of its authority`(line: String, host: String, text: String) throws {
    let rig = try Rig(
      "server { listen 80; location / { return 200 \"<$request_port|$host$is_request_port$request_port>\"; } }")
    let client = try rig.ask(line, host)
    #expect(client.body == text)
  }
}
