import Bytes
import Crypto
import Envelope
@testable import Features
@testable import Forward
import HTTP
import TestSupport
import Testing
@testable import Traffic
import Transport
import Upstream

/// Whole exchanges between a client and upstreams in memory, without sockets or sleeping.
@Suite struct `An exchange with an upstream` {
  @Test func `hands the response on, and the connection to the next request`() throws {
    let rig = try Rig.passing()
    let client = try rig.asked()
    #expect(try rig.upstream.sent.hasPrefix("GET /a HTTP/1.1\r\n"))
    try rig.upstream.answer("HTTP/1.1 103 Early Hints\r\n\r\n")
    #expect(client.status == nil)
    try rig.upstream.answer(Rig.ok)
    #expect(client.status == 200 && client.body == "ok" && client.hasEnded && client.isReleased)
    let second = try rig.ask(Rig.get)
    #expect(rig.upstreams.count == 1)
    try rig.upstream.answer(Rig.ok)
    #expect(second.body == "ok")
  }

  @Test func `an upstream that can't be reached is followed by another, and then by 502`() throws {
    let rig = try Rig.passing(servers: 2)
    let client = try rig.ask(Rig.get)
    try rig.upstream.refuse()
    #expect(client.status == nil && rig.upstreams.map(\.server) == [0, 1])
    try rig.upstream.refuse()
    #expect(client.status == 502 && client.isReleased)
  }

  @Test func `a request that may do harm twice is not sent twice`() throws {
    for (method, tries) in [("GET", 2), ("POST", 1)] {
      let rig = try Rig.passing(servers: 2)
      let client = try rig.asked(["\(method) / HTTP/1.1", "Host: h"])
      try rig.upstream.answer("", ends: true)
      #expect(rig.upstreams.count == tries)
      #expect((client.status == 502) == (tries == 1))
    }
  }

  @Test func `a dead kept session is replaced once, at the same server`() throws {
    let rig = try Rig.passing()
    _ = try rig.asked()
    try rig.upstream.answer(Rig.ok)
    let client = try rig.ask(Rig.get)
    #expect(rig.upstreams.count == 1)
    try rig.upstream.answer("", ends: true)
    #expect(rig.upstreams.count == 2 && client.status == nil)
    try rig.upstream.open()
    try rig.upstream.answer(Rig.ok)
    #expect(client.body == "ok")
  }

  @Test func `a status that proxy_next_upstream names asks the next server`() throws {
    let rig = try Rig.passing("proxy_next_upstream http_503;", servers: 2)
    let client = try rig.asked()
    try rig.upstream.answer("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n")
    #expect(client.status == nil && rig.upstreams.count == 2)
    try rig.upstream.open()
    try rig.upstream.answer(Rig.ok)
    #expect(client.status == 200)
  }

  @Test func `a body is kept whole before the upstream is asked, or goes on as it comes`() throws {
    let post = ["POST / HTTP/1.1", "Host: h", "Content-Length: 6", "Expect: 100-continue"]
    let kept = try Rig.passing()
    let first = try kept.ask(post, body: ["abc"], isWhole: false)
    #expect(kept.upstreams.isEmpty && first.interim == [100])
    first.more("def", isLast: true)
    try kept.upstream.open()
    #expect(try kept.upstream.sent.hasSuffix("\r\n\r\nabcdef"))

    let streamed = try Rig.passing("proxy_request_buffering off;")
    let second = try streamed.ask(post, body: ["abc"], isWhole: false)
    // The proxy requests the body only when the upstream is connected.
    #expect(second.interim.isEmpty)
    try streamed.upstream.open()
    #expect(second.interim == [100])
    #expect(try streamed.upstream.sent.hasSuffix("\r\n\r\nabc"))
    second.more("def", isLast: true)
    streamed.loop.cork.flush()
    #expect(try streamed.upstream.sent.hasSuffix("\r\n\r\nabcdef"))
  }

  @Test func `a slow client stops the upstream until it has taken what waits`() throws {
    let rig = try Rig.passing("proxy_buffering off; send_timeout 7s;")
    let client = try rig.asked()
    client.held = 1 << 30
    try rig.upstream.answer("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
    #expect(client.body == "ab" && client.watchedFor == 7000)
    try rig.upstream.answer("cd")
    #expect(client.body == "ab" && !client.isReleased)
    client.held = 0
    client.exchange?.streamDidDrain()
    #expect(client.body == "abcd" && client.isReleased)
  }

  @Test func `a client that takes nothing in time is cut`() throws {
    let rig = try Rig.passing()
    let client = try rig.asked()
    try rig.upstream.answer("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
    client.exchange?.deadlinePassed()
    #expect(client.cutReason == .clientTimedOut)
    #expect(try rig.upstream.isClosed)
  }

  @Test func `a body that stops coming is 408`() throws {
    let rig = try Rig.passing()
    let client = try rig.ask(["POST / HTTP/1.1", "Host: h", "Content-Length: 6"], body: ["abc"], isWhole: false)
    client.exchange?.deadlinePassed()
    #expect(client.status == 408 && client.closesAfterResponse)
  }

  @Test func `a client that leaves takes the upstream with it, unless proxy_ignore_client_abort says otherwise`() throws
  {
    for goesOn in [false, true] {
      let rig = try Rig.passing("proxy_ignore_client_abort \(goesOn ? "on" : "off");")
      let client = try rig.asked()
      client.exchange?.clientDidLeave()
      #expect(try rig.upstream.isClosed != goesOn)
      #expect((client.cutReason == .clientLeft) == !goesOn)
      guard goesOn else { continue }
      try rig.upstream.answer(Rig.ok)
      #expect(client.cutReason == .clientLeft && client.body.isEmpty)
      #expect(try !rig.upstream.isClosed)
    }
  }

  @Test func `a response that breaks off is cut, so that no part of it is taken for all`() throws {
    let rig = try Rig.passing()
    let client = try rig.asked()
    try rig.upstream.answer("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab", ends: true)
    #expect(client.status == 200 && client.cutReason == .upstreamBroke && !client.hasEnded)
  }

  @Test func `another protocol carries bytes both ways until one side ends`() throws {
    let rig = try Rig.passing("proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;")
    let client = try rig.asked(Rig.get + ["Connection: upgrade", "Upgrade: websocket"])
    try rig.upstream.answer("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\nhello")
    #expect(client.isTunnel && client.body == "hello")
    client.more("there")
    rig.loop.cork.flush()
    #expect(try rig.upstream.sent == "there")
    try rig.upstream.answer("bye", ends: true)
    #expect(client.body == "hellobye" && client.isReleased)
  }

  @Test func `444 says nothing, and a worker that stops cuts`() throws {
    let silent = try Rig("server { listen 80; return 444; }").ask("GET / HTTP/1.1", "Host: h")
    #expect(silent.cutReason == .silent && silent.status == nil)
    let rig = try Rig.passing()
    let client = try rig.asked()
    client.exchange?.streamWasCut()
    #expect(client.cutReason == .workerStops)
    #expect(try rig.upstream.isClosed)
  }

  @Test func `what the upstream said is in the record of a response that broke off`() async throws {
    let scene = try Scene()
    defer { scene.end() }
    let rig = try Rig(
      """
      log_format f "$upstream_http_x $upstream_bytes_received $status";
      server { listen 80; location / { proxy_pass http://127.0.0.1:9; proxy_http_version 1.1; } }
      """, accessLog: "\(scene.path("access.log")) f")
    let client = try rig.asked()
    let head = "HTTP/1.1 200 OK\r\nX: seen\r\nContent-Length: 10\r\n\r\n12345"
    try rig.upstream.answer(head, ends: true)
    #expect(client.cutReason == .upstreamBroke)
    let second = try rig.asked()
    try rig.upstream.answer(head)
    second.exchange?.clientDidLeave()
    rig.flushLogs()
    let line = "seen \(head.utf8.count) 200"
    try await until("both lines") { scene.text("access.log") == "\(line)\n\(line)\n" }
  }
}
