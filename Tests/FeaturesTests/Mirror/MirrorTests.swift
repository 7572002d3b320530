@testable import Features
@testable import Forward
import HTTP
import TestSupport
import Testing
@testable import Traffic
import Transport

/// `mirror` between a client and upstreams in memory.
@Suite struct Mirrors {
  private func rig(_ directives: String = "", copy: String = "") throws -> Rig {
    try Rig(
      """
      upstream u { server 127.0.0.1:9; keepalive 4; } upstream m { server 127.0.0.1:10; keepalive 4; }
      server { listen 80;
        location / { mirror /copy; \(directives) proxy_pass http://u; proxy_http_version 1.1; }
        location = /copy { internal; proxy_pass http://m; proxy_http_version 1.1; \(copy) }
      }
      """)
  }

  @Test func `a mirror gets method, body and target, and its failure or delay reaches nobody`() throws {
    let rig = try rig(copy: "proxy_set_header X-Original-URI $request_uri;")
    let client = try rig.ask("PUT /a?b HTTP/1.1", "Host: h", "Content-Length: 4", "X-A: 1", body: ["bo", "dy"])
    #expect(rig.upstreams.count == 2)
    let (copy, main) = (rig.upstreams[0], rig.upstreams[1])
    copy.open()
    #expect(copy.sent.hasPrefix("PUT /copy?b HTTP/1.1\r\n") && copy.sent.hasSuffix("\r\n\r\nbody"))
    #expect(copy.sent.contains("X-Original-URI: /a?b\r\n") && copy.sent.contains("X-A: 1\r\n"))
    main.open()
    #expect(main.sent.hasPrefix("PUT /a?b HTTP/1.1\r\n") && main.sent.hasSuffix("\r\n\r\nbody"))
    main.answer(Rig.ok)
    #expect(client.body == "ok" && client.isReleased && rig.worker[RunningMirrors.self].isBusy)
    copy.answer("HTTP/1.1 500 No\r\nContent-Length: 99\r\n\r\n", ends: true)
    let next = try rig.ask("GET / HTTP/1.1", "Host: h")
    main.answer(Rig.ok)
    #expect(next.body == "ok")
  }

  @Test(arguments: [
    ("", "/a?b=c", "/copy?b=c"), ("", "/a", "/copy"), ("set $args x=$arg_b;", "/a?b=c", "/copy?x=c"),
    ("rewrite ^ /a?d=e break;", "/a?b=c", "/copy?d=e&b=c"),
  ])
  func `a mirror has the query that the request has by then`(rules: String, target: String, copy: String) throws {
    let rig = try rig(rules)
    _ = try rig.ask("GET \(target) HTTP/1.1", "Host: h")
    rig.upstreams[0].open()
    #expect(rig.upstreams[0].sent.hasPrefix("GET \(copy) HTTP/1.1\r\n"), "\(rig.upstreams[0].sent)")
  }

  @Test func `without the body, nothing is collected and nothing announced`() throws {
    let rig = try rig("mirror_request_body off; proxy_request_buffering off;")
    let client = try rig.ask(["POST /a HTTP/1.1", "Host: h", "Content-Length: 4"], body: ["bo"], isWhole: false)
    let (copy, main) = (rig.upstreams[0], rig.upstreams[1])
    copy.open()
    #expect(copy.sent.contains("Content-Length: 0\r\n") && copy.sent.hasSuffix("\r\n\r\n"))
    main.open()
    client.more("dy", isLast: true)
    rig.loop.cork.flush()
    #expect(main.sent.hasSuffix("\r\n\r\nbody"))
    main.answer(Rig.ok)
    #expect(client.body == "ok")
  }

  @Test func `a body that fails ends the request before it is mirrored`() throws {
    let rig = try rig("client_max_body_size 3;")
    let client = try rig.ask(["POST /a HTTP/1.1", "Host: h", "Transfer-Encoding: chunked"], body: ["body"])
    #expect(client.status == 413 && rig.upstreams.isEmpty)
    let waiting = try rig.ask(
      ["POST /a HTTP/1.1", "Host: h", "Transfer-Encoding: chunked"], body: ["b"], isWhole: false)
    waiting.exchange?.clientDidLeave()
    #expect(waiting.cutReason == .clientLeft && rig.upstreams.isEmpty)
    let slow = try rig.ask(["POST /a HTTP/1.1", "Host: h", "Transfer-Encoding: chunked"], body: ["b"], isWhole: false)
    slow.more("o", isLast: true)
    #expect(rig.upstreams.count == 2)
  }

  @Test func `a mirror outlives its client, and ends with the worker`() throws {
    let rig = try rig()
    let client = try rig.ask("GET /a HTTP/1.1", "Host: h")
    rig.upstreams[0].open()
    client.exchange?.clientDidLeave()
    #expect(!rig.upstreams[0].isClosed && rig.upstreams[1].isClosed && rig.live.clients == 1)
    rig.worker[RunningMirrors.self].cut(of: nil)
    #expect(rig.upstreams[0].isClosed)
  }

  @Test func `mirrors are bounded in number`() throws {
    let rig = try rig()
    for _ in 0..<(RunningMirrors.limit + 5) { _ = try rig.ask("GET /a HTTP/1.1", "Host: h") }
    #expect(rig.live.clients == RunningMirrors.limit && !rig.worker[RunningMirrors.self].hasRoom)
    rig.worker[RunningMirrors.self].cut(of: nil)
  }
}
