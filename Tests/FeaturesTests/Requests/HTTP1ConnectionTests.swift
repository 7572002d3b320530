import Bytes
@testable import Features
@testable import Forward
import HTTP
import Testing
@testable import Traffic
import Transport

/// An HTTP/1 connection between a client and an upstream in memory.
@Suite struct `An HTTP 1 connection` {
  private static let upgrade = "GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
  private static let switched = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"

  private func rig(_ more: String = "") throws -> Rig {
    try Rig(
      """
      server { listen 80; location / { proxy_pass http://127.0.0.1:9; proxy_http_version 1.1; proxy_buffers 2 4k;
        proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; \(more) } }
      """)
  }

  private func response(_ length: Int, _ part: Int) -> String {
    "HTTP/1.1 200 OK\r\nContent-Length: \(length)\r\n\r\n" + String(repeating: "x", count: part)
  }

  @Test func `keeps the time to take a response, whatever waits for an upstream`() throws {
    let rig = try rig()
    let (client, connection) = try rig.connection()
    client.answer(Self.upgrade + "\r\n")
    try rig.upstream.open()
    try rig.upstream.answer(Self.switched)
    #expect(!connection.stream.hasDeadline)
    // The client takes no response bytes, and the upstream takes no request bytes.
    client.isBlocked = true
    try rig.upstream.answer(String(repeating: "y", count: 300_000))
    #expect(connection.stream.hasDeadline)
    try rig.upstream.isBlocked = true
    for _ in 0..<20 { client.answer(String(repeating: "z", count: 16_384)) }
    #expect(connection.stream.hasDeadline)
    connection.stream.deadlinePassed()
    #expect(client.isClosed)
  }

  @Test func `gives a slow client all that came of a response that broke off`() throws {
    let rig = try rig()
    let (client, connection) = try rig.connection()
    client.answer("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    client.isBlocked = true
    try rig.upstream.open()
    try rig.upstream.answer(response(100_000, 50_000), ends: true)
    // The proxy reads on as the client takes what came.
    for _ in 0..<20 where !client.isClosed {
      client.unblock()
      if connection.phase == .exchanging { client.isBlocked = true }
    }
    #expect(client.sent.filter { $0 == "x" }.count == 50_000 && client.isClosed)
  }

  @Test func `waits for a client to take a response that broke off for send_timeout only`() throws {
    let rig = try rig()
    let (client, connection) = try rig.connection()
    client.answer("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    client.isBlocked = true
    try rig.upstream.open()
    try rig.upstream.answer(response(100_000, 5000), ends: true)
    #expect(!client.isClosed && client.hasDeadline)
    connection.streamDeadlinePassed()
    #expect(client.isClosed)
  }

  @Test func `forgets the time of a body when it becomes a tunnel`() throws {
    let rig = try rig("proxy_request_buffering off;")
    let (client, connection) = try rig.connection()
    client.answer(Self.upgrade + "Content-Length: 100\r\n\r\n0123456789")
    try rig.upstream.open()
    #expect(connection.stream.hasDeadline)
    try rig.upstream.answer(Self.switched)
    #expect(!connection.stream.hasDeadline && !client.isClosed)
  }

  @Test func `waits for no body any more that was thrown away`() throws {
    let rig = try Rig(
      """
      server { listen 80; client_max_body_size 20; error_page 413 /page;
        location / { proxy_pass http://127.0.0.1:9; } location /page { proxy_pass http://127.0.0.1:9; } }
      """)
    let (client, connection) = try rig.connection()
    client.answer("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n")
    #expect(connection.stream.hasDeadline)
    client.answer("40\r\n" + String(repeating: "a", count: 64))
    // The proxy requests the error page, and that request has its own deadline.
    try rig.upstream.open()
    #expect(try rig.upstream.sent.hasPrefix("GET /page "))
    #expect(!connection.stream.hasDeadline)
  }

  @Test(arguments: ["GET /", "TRACE / HTTP/1.1\r\nHost: h", "GET / HTTP/9.9\r\nHost: h", "GET / HTTP/1.1"])
  func `ends with a head that is refused`(head: String) throws {
    let (client, _) = try rig().connection()
    client.answer(head + "\r\n\r\n")
    #expect(client.sent.contains("\r\nConnection: close\r\n") && client.isClosed, "\(client.sent)")
  }
}
