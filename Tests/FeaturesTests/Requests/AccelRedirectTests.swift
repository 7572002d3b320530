@testable import Features
@testable import Forward
import HTTP
import TestSupport
import Testing
@testable import Traffic
import Transport

/// X-Accel-Redirect between a client and upstreams in memory.
@Suite struct `X-Accel-Redirect` {
  private func accel(_ directives: String = "") throws -> Rig {
    try Rig(
      """
      upstream u { server 127.0.0.1:9; keepalive 4; } upstream f { server 127.0.0.1:10; keepalive 4; }
      server { listen 80; proxy_http_version 1.1;
        location / { proxy_pass http://u; \(directives) }
        location /files/ { internal; set $kept $upstream_http_x_kept; proxy_set_header X-Kept $kept; proxy_pass http://f; }
        location @named { proxy_pass http://f; }
        location /text { internal; return 200 "$uri|$args"; }
        location /loop { proxy_pass http://u; }
      }
      """)
  }

  private func answer(_ target: String, _ fields: String = "") -> String {
    "HTTP/1.1 404 No\r\nX-Accel-Redirect: \(target)\r\n\(fields)Content-Length: 4\r\n\r\nlost"
  }

  @Test func `X-Accel-Redirect leads to an internal location by GET, with nginx's fields of the first response`() throws
  {
    let rig = try accel("proxy_hide_header Expires;")
    let client = try rig.ask("POST /a HTTP/1.1", "Host: h", "Content-Length: 2", body: ["hi"])
    try rig.upstream.open()
    let kept = "Content-Type: text/first\r\nSet-Cookie: a=1\r\nContent-Disposition: attachment\r\nExpires: 0\r\n"
    try rig.upstream.answer(answer("/files/a%20b%3Fc?d=e", kept + "ETag: x\r\nX-Kept: yes\r\n"))
    try rig.upstream.open()
    let sent = try rig.upstream.sent
    #expect(sent.hasPrefix("GET /files/a%20b%3Fc?d=e HTTP/1.1\r\n") && !sent.contains("Content-Length"))
    #expect(sent.contains("X-Kept: yes\r\n"))
    try rig.upstream.answer(
      "HTTP/1.1 200 OK\r\nContent-Type: text/second\r\nSet-Cookie: b=2\r\nContent-Length: 2\r\n\r\nok")
    #expect(client.status == 200 && client.body == "ok" && !client.head.contains("text/first"))
    for part in ["Content-Type: text/second", "Set-Cookie: a=1", "Set-Cookie: b=2", "Content-Disposition: attachment"] {
      #expect(client.head.contains(part + "\r\n"), "\(part)")
    }
    #expect(!client.head.contains("ETag") && !client.head.contains("Expires") && !client.head.contains("X-Accel"))
    // The next request of the same objects has none of them.
    let next = try rig.ask("GET /a HTTP/1.1", "Host: h")
    try rig.upstream.open()
    try rig.upstream.answer(Rig.ok)
    #expect(next.status == 200 && !next.head.contains("Cookie"))
  }

  @Test func `a named location gets the request as it is`() throws {
    let rig = try accel()
    let client = try rig.ask("POST /a HTTP/1.1", "Host: h", "Content-Length: 2", body: ["hi"])
    try rig.upstream.open()
    try rig.upstream.answer(answer("@named"))
    try rig.upstream.open()
    #expect(try rig.upstream.sent.hasPrefix("POST /a HTTP/1.1\r\n"))
    #expect(try rig.upstream.sent.hasSuffix("\r\n\r\nhi"))
    try rig.upstream.answer(Rig.ok)
    #expect(client.body == "ok")
  }

  @Test(arguments: [
    ("POST", "/text", "GET POST /a"), ("HEAD", "/text", "HEAD HEAD /a"), ("POST", "@named", "POST POST /a"),
  ])
  func `the method of a redirect to a path is GET, and the request line stays`(
    method: String, target: String, said: String
  ) throws {
    let rig = try Rig(
      """
      upstream u { server 127.0.0.1:9; keepalive 4; }
      server { listen 80; add_header X-Said "$request_method $request" always; error_page 418 /text;
        location / { proxy_pass http://u; proxy_intercept_errors on; }
        location /text { return 200; } location @named { return 200; } }
      """)
    for first in [answer(target), target == "@named" ? nil : "HTTP/1.1 418 Tea\r\nContent-Length: 0\r\n\r\n"] {
      guard let first else { continue }
      let client = try rig.ask("\(method) /a HTTP/1.1", "Host: h", "Content-Length: 0")
      try rig.upstream.open()
      try rig.upstream.answer(first, ends: true)
      #expect(client.head.contains("\r\nX-Said: \(said) HTTP/1.1\r\n"), "\(client.head)")
    }
  }

  @Test func `HEAD stays HEAD`() throws {
    let rig = try accel()
    _ = try rig.ask("HEAD /a HTTP/1.1", "Host: h")
    try rig.upstream.open()
    try rig.upstream.answer("HTTP/1.1 200 OK\r\nX-Accel-Redirect: /files/x\r\nContent-Length: 4\r\n\r\n")
    try rig.upstream.open()
    #expect(try rig.upstream.sent.hasPrefix("HEAD /files/x "))
  }

  @Test(arguments: [
    ("/text?x", 200, "/text|x"), ("/../etc", 404, nil), ("/files/%2e%2e/x", 404, nil), ("/a%00", 404, nil),
    ("/a%2", 404, nil),
    ("http://h/files/", 404, nil), ("", 404, nil), ("@none", 500, nil), ("?x", 404, nil), ("files/", 404, nil),
    ("/text/..a", 200, "/text/..a|"),
  ])
  func `unsafe targets are refused`(target: String, status: Int, body: String?) throws {
    let rig = try accel()
    let client = try rig.ask("GET /a HTTP/1.1", "Host: h", "X-Accel-Redirect: /files/x")
    try rig.upstream.open()
    try rig.upstream.answer(answer(target))
    #expect(client.status == UInt16(status) && rig.upstreams.count == 1)
    if let body { #expect(client.body == body) }
  }

  @Test func `a loop ends in 500, after ten redirects`() throws {
    let rig = try accel()
    let client = try rig.ask("GET /loop HTTP/1.1", "Host: h")
    for _ in 0..<20 where client.status == nil {
      try rig.upstream.open()
      try rig.upstream.answer(answer("/loop"))
    }
    #expect(client.status == 500 && rig.upstreams.count == 11)
  }

  @Test func `an internal location is not a client's, and an ignored field changes nothing`() throws {
    let rig = try accel()
    #expect(try rig.ask("GET /files/x HTTP/1.1", "Host: h", "X-Accel-Redirect: /files/x").status == 404)
    #expect(AccelTarget(Array("/a?b?c".utf8), mergeSlashes: true)?.arguments == Array("b?c".utf8))
    for (text, path) in [
      ("/./b/c", "/b/c"), ("//b///c", "/b/c"), ("/b/%2e/c", "/b/c"), ("/b/../c", nil), ("/%0ab", nil),
    ] {
      #expect(AccelTarget(Array(text.utf8), mergeSlashes: true)?.path == path.map { Array($0.utf8) }, "\(text)")
    }
  }
}
