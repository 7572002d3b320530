import Bytes
import Crypto
import Envelope
import HTTP
@testable import Proxy
import TestSupport
import Testing
import Transport
import Upstream

/// Whole exchanges between a client and upstreams in memory, without sockets or sleeping.
@Suite struct `An exchange with an upstream` {
  private static let get = ["GET /a HTTP/1.1", "Host: h"]
  private static let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

  private func rig(_ directives: String = "", servers: Int = 1, http: String = "") throws -> Rig {
    let lines = (0..<servers).map { "server 127.0.0.1:\(9 + $0);" }.joined()
    return try Rig(
      """
      \(http) upstream u { \(lines) keepalive 4; }
      server { listen 80; location / { proxy_pass http://u; proxy_http_version 1.1; \(directives) } }
      """)
  }

  /// Starts an exchange, and opens the upstream so that the request has been sent.
  private func asked(_ rig: Rig, _ lines: [String] = get, body: [String] = []) throws -> MemoryStream {
    let client = try rig.ask(lines, body: body)
    try rig.upstream.open()
    return client
  }

  @Test func `hands the response on, and the connection to the next request`() throws {
    let rig = try rig()
    let client = try asked(rig)
    #expect(try rig.upstream.sent.hasPrefix("GET /a HTTP/1.1\r\n"))
    try rig.upstream.answer("HTTP/1.1 103 Early Hints\r\n\r\n")
    #expect(client.status == nil)
    try rig.upstream.answer(Self.ok)
    #expect(client.status == 200 && client.body == "ok" && client.hasEnded && client.isReleased)
    let second = try rig.ask(Self.get)
    #expect(rig.upstreams.count == 1)
    try rig.upstream.answer(Self.ok)
    #expect(second.body == "ok")
  }

  @Test func `early hints are passed on where a condition holds, without what is hidden`() throws {
    let rig = try rig("early_hints $http_x; proxy_hide_header X-Secret;")
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nX-Secret: s\r\nConnection: x\r\n\r\n"
    for (field, shown) in [("X: 1", "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"), ("X: 0", ""), ("Y: 1", "")] {
      let client = try asked(rig, Self.get + [field])
      try rig.upstream.answer(hints)
      #expect(client.hints == shown && client.status == nil)
      try rig.upstream.answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
      #expect(client.status == 200 && !client.head.contains("Link"))
    }
  }

  @Test func `an upstream that can't be reached is followed by another, and then by 502`() throws {
    let rig = try rig(servers: 2)
    let client = try rig.ask(Self.get)
    try rig.upstream.refuse()
    #expect(client.status == nil && rig.upstreams.map(\.server) == [0, 1])
    try rig.upstream.refuse()
    #expect(client.status == 502 && client.isReleased)
  }

  @Test func `a request that may do harm twice is not sent twice`() throws {
    for (method, tries) in [("GET", 2), ("POST", 1)] {
      let rig = try rig(servers: 2)
      let client = try asked(rig, ["\(method) / HTTP/1.1", "Host: h"])
      try rig.upstream.answer("", ends: true)
      #expect(rig.upstreams.count == tries)
      #expect((client.status == 502) == (tries == 1))
    }
  }

  @Test func `a dead kept session is replaced once, at the same server`() throws {
    let rig = try rig()
    _ = try asked(rig)
    try rig.upstream.answer(Self.ok)
    let client = try rig.ask(Self.get)
    #expect(rig.upstreams.count == 1)
    try rig.upstream.answer("", ends: true)
    #expect(rig.upstreams.count == 2 && client.status == nil)
    try rig.upstream.open()
    try rig.upstream.answer(Self.ok)
    #expect(client.body == "ok")
  }

  @Test func `a status that proxy_next_upstream names asks the next server`() throws {
    let rig = try rig("proxy_next_upstream http_503;", servers: 2)
    let client = try asked(rig)
    try rig.upstream.answer("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n")
    #expect(client.status == nil && rig.upstreams.count == 2)
    try rig.upstream.open()
    try rig.upstream.answer(Self.ok)
    #expect(client.status == 200)
  }

  @Test func `a body is kept whole before the upstream is asked, or goes on as it comes`() throws {
    let post = ["POST / HTTP/1.1", "Host: h", "Content-Length: 6", "Expect: 100-continue"]
    let kept = try rig()
    let first = try kept.ask(post, body: ["abc"], isWhole: false)
    #expect(kept.upstreams.isEmpty && first.interim == [100])
    first.more("def", isLast: true)
    try kept.upstream.open()
    #expect(try kept.upstream.sent.hasSuffix("\r\n\r\nabcdef"))

    let streamed = try rig("proxy_request_buffering off;")
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
    let rig = try rig("proxy_buffering off; send_timeout 7s;")
    let client = try asked(rig)
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
    let rig = try rig()
    let client = try asked(rig)
    try rig.upstream.answer("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
    client.exchange?.deadlinePassed()
    #expect(client.cutReason == .clientTimedOut)
    #expect(try rig.upstream.isClosed)
  }

  @Test func `a body that stops coming is 408`() throws {
    let rig = try rig()
    let client = try rig.ask(["POST / HTTP/1.1", "Host: h", "Content-Length: 6"], body: ["abc"], isWhole: false)
    client.exchange?.deadlinePassed()
    #expect(client.status == 408 && client.closesAfterResponse)
  }

  @Test func `a client that leaves takes the upstream with it, unless proxy_ignore_client_abort says otherwise`() throws
  {
    for goesOn in [false, true] {
      let rig = try rig("proxy_ignore_client_abort \(goesOn ? "on" : "off");")
      let client = try asked(rig)
      client.exchange?.clientDidLeave()
      #expect(try rig.upstream.isClosed != goesOn)
      #expect((client.cutReason == .clientLeft) == !goesOn)
      guard goesOn else { continue }
      try rig.upstream.answer(Self.ok)
      #expect(client.cutReason == .clientLeft && client.body.isEmpty)
      #expect(try !rig.upstream.isClosed)
    }
  }

  @Test func `a response that breaks off is cut, so that no part of it is taken for all`() throws {
    let rig = try rig()
    let client = try asked(rig)
    try rig.upstream.answer("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab", ends: true)
    #expect(client.status == 200 && client.cutReason == .upstreamBroke && !client.hasEnded)
  }

  @Test func `another protocol carries bytes both ways until one side ends`() throws {
    let rig = try rig("proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;")
    let client = try asked(rig, Self.get + ["Connection: upgrade", "Upgrade: websocket"])
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
    let rig = try rig()
    let client = try asked(rig)
    client.exchange?.streamWasCut()
    #expect(client.cutReason == .workerStops)
    #expect(try rig.upstream.isClosed)
  }

  @Test func `an error page takes the place of what the upstream said`() throws {
    let rig = try Rig(
      """
      server { listen 80; location / { proxy_pass http://127.0.0.1:9; proxy_intercept_errors on; error_page 500 =203 /page; }
        location /page { return 200 "page of $uri"; } }
      """)
    let client = try asked(rig)
    try rig.upstream.answer("HTTP/1.1 500 No\r\nContent-Length: 3\r\n\r\nown")
    #expect(client.status == 203 && client.body == "page of /page")
    #expect(try rig.upstream.isClosed)
  }

  @Test func `an envelope that was not opened goes to no error page's upstream`() throws {
    let rig = try Rig(
      """
      server { listen 80; error_page 503 @plain; location / { proxy_pass http://127.0.0.1:9; \(Self.sealed) }
        location @plain { proxy_pass http://127.0.0.1:9; } }
      """, replays: ReplayGuard(ReplayWindow(limit: 1), span: 60_000))
    let envelope = try Rig.envelope(EnvelopeSuite(.aes256GCM, nil))
    for isFirst in [true, false] {
      let text = try Array("{\"a\":1}".utf8).withUnsafeBytes { plain in
        let sealed = try envelope.seal(plain, now: 0)
        return sealed.readable.text
      }
      _ = try rig.ask(["POST / HTTP/1.1", "Host: h", "Content-Length: \(text.utf8.count)"], body: [text])
      try rig.upstream.open()
      // The replay window has room for one envelope. The second gets 503, and the request for the page has no body.
      #expect(try rig.upstream.sent.hasPrefix(isFirst ? "POST / " : "GET / "))
      #expect(try rig.upstream.sent.hasSuffix(isFirst ? "\r\n\r\n{\"a\":1}" : "\r\n\r\n"))
    }
  }

  @Test func `what the upstream said is in the record of a response that broke off`() async throws {
    let scene = try Scene()
    defer { scene.end() }
    let rig = try Rig(
      """
      log_format f "$upstream_http_x $upstream_bytes_received $status";
      server { listen 80; location / { proxy_pass http://127.0.0.1:9; proxy_http_version 1.1; } }
      """, accessLog: "\(scene.path("access.log")) f")
    let client = try asked(rig)
    let head = "HTTP/1.1 200 OK\r\nX: seen\r\nContent-Length: 10\r\n\r\n12345"
    try rig.upstream.answer(head, ends: true)
    #expect(client.cutReason == .upstreamBroke)
    let second = try asked(rig)
    try rig.upstream.answer(head)
    second.exchange?.clientDidLeave()
    rig.flushLogs()
    let line = "seen \(head.utf8.count) 200"
    try await until("both lines") { scene.text("access.log") == "\(line)\n\(line)\n" }
  }

  @Test func `the address of an error page may speak of the upstream that failed`() throws {
    let rig = try Rig(
      """
      server { listen 80; error_page 502 /down?h=$proxy_host; location / { proxy_pass http://127.0.0.1:9; }
        location /down { return 200 "$args $proxy_port"; } }
      """)
    let client = try rig.ask(Self.get)
    try rig.upstream.refuse()
    #expect(client.status == 502 && client.body == "h=127.0.0.1:9 9")
  }

  // MARK: Authentication

  private static let challenge =
    "HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=\"r\"\r\nContent-Length: 2\r\n\r\nno"
  private static let auth =
    "proxy_auth basic; proxy_auth_user_file /nowhere/users; proxy_set_header Connection \"\";"

  @Test func `a challenge is answered over the same session, and the client sees nothing of it`() throws {
    let rig = try rig(Self.auth)
    let client = try asked(rig)
    #expect(try !rig.upstream.sent.contains("Authorization"))
    try rig.upstream.answer(Self.challenge)
    #expect(client.status == nil && rig.upstreams.count == 1)
    // The Base64 form of al:secret.
    #expect(try rig.upstream.sent.contains("\r\nAuthorization: Basic YWw6c2VjcmV0\r\n"))
    try rig.upstream.answer(Self.ok)
    #expect(client.status == 200 && client.body == "ok")
  }

  @Test func `credentials that are refused are 502, and shown once`() throws {
    let rig = try rig(Self.auth)
    let client = try asked(rig)
    try rig.upstream.answer(Self.challenge)
    try rig.upstream.answer(Self.challenge)
    #expect(client.status == 502 && !client.head.contains("WWW-Authenticate"))
    #expect(try rig.upstream.isClosed)
  }

  // MARK: Sealing

  private static let sealed =
    "message_envelope on; message_envelope_cipher aes-256-gcm; message_envelope_key /nowhere/key; message_envelope_mac none;"

  @Test func `an envelope is opened for the upstream, and its response sealed whole`() throws {
    let rig = try rig(Self.sealed)
    let envelope = try Rig.envelope(EnvelopeSuite(.aes256GCM, nil))
    let text = try Array("{\"a\":1}".utf8).withUnsafeBytes { plain in
      let sealed = try envelope.seal(plain, now: 0)
      return sealed.readable.text
    }
    let client = try rig.ask(
      ["POST / HTTP/1.1", "Host: h", "Content-Length: \(text.utf8.count)"],
      body: [String(text.prefix(10)), String(text.dropFirst(10))])
    #expect(client.status == nil, "\(client.body)")
    try rig.upstream.open()
    #expect(try rig.upstream.sent.hasSuffix("\r\n\r\n{\"a\":1}"), "\(client.status ?? 0)")
    try rig.upstream.answer("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsec")
    #expect(client.status == nil)
    try rig.upstream.answer("ret")
    #expect(client.status == 200 && client.isReleased && !client.body.contains("secret"))
    let opened = try Array(client.body.utf8).withUnsafeBytes { sealed in
      let plain = try envelope.open(sealed, now: 1)
      return plain.readable.text
    }
    #expect(opened == "secret")
  }

  @Test func `what is no envelope goes nowhere`() throws {
    let rig = try rig(Self.sealed)
    let client = try rig.ask(["POST / HTTP/1.1", "Host: h", "Content-Length: 7"], body: ["{\"a\":1}"])
    #expect(client.status == 400 && rig.upstreams.isEmpty)
  }
}
