import Bytes
@testable import Features
@testable import Forward
import Glibc
import TestSupport
import Testing
@testable import Traffic
import Transport

/// What an exchange waits for ends with it, and a wait for a file is no offence.
@Suite struct `Waits of an exchange` {
  private static let address = "192.0.2.1"

  /// Occupies all lanes of a class until the flag is raised.
  private func hold(_ work: BlockingWork, of pool: BlockingPool) async throws -> Flag {
    let held = Flag(), begun = (0..<work.limits.lanes).map { _ in Flag() }
    for flag in begun {
      _ = pool.run(work, for: "held") {
        flag.raise()
        held.wait()
      }
    }
    try await until("the lanes to be taken") { begun.allSatisfy(\.isRaised) }
    return held
  }

  @Test(arguments: ["metrics", "status"])
  func `a page about the process is made on a thread, and the worker serves meanwhile`(kind: String) async throws {
    let rig = try Rig("server { listen 80; location /page { \(kind); } location /other { return 204; } }")
    let pool = rig.worker.shared.pool
    let held = try await hold(.pages, of: pool)
    defer { held.raise() }
    let client = try rig.ask("GET /page HTTP/1.1", "Host: h")
    #expect(client.status == nil && pool.waiting(.pages, for: Self.address) == 1)
    #expect(try rig.ask("GET /other HTTP/1.1", "Host: h").status == 204)
    // Who leaves takes the page with it.
    let gone = try rig.ask("GET /page HTTP/1.1", "Host: h")
    gone.exchange?.clientDidLeave()
    #expect(pool.waiting(.pages, for: Self.address) == 1)
    held.raise()
    try await rig.turn(until: "the page") { client.status == 200 }
  }

  /// The change counts from when it is made, and only its client would know of a file that lacks it.
  @Test func `a change of the API is written though its client leaves while the file waits`() async throws {
    let scene = try Scene()
    defer { scene.end() }
    let path = scene.path("pairs")
    let rig = try Rig(
      """
      keyval_zone zone=z:32k state=\(path); keyval $arg_k $v zone=z;
      server { listen 80; location /api { api write=on; allow 192.0.2.1; deny all; } }
      """)
    let pool = rig.worker.shared.pool, held = Flag()
    defer { held.raise() }
    _ = pool.run(.stateFiles, for: path) { held.wait() }
    let client = try rig.ask(
      "POST /api/9/http/keyvals/z HTTP/1.1", "Host: h", "Content-Length: 9", body: [#"{"a":"b"}"#])
    #expect(client.status == nil && pool.waiting(.stateFiles, for: path) == 1)
    client.exchange?.clientDidLeave()
    #expect(client.exchange == nil && pool.waiting(.stateFiles, for: path) == 1)
    held.raise()
    try await rig.turn(until: "the file") { scene.text("pairs").contains(#""a":"b""#) }
  }

  @Test func `a slow disk keeps a body from its upstream and its client from sending, and nobody else`() async throws {
    let rig = try Rig(
      """
      server { listen 80; location /other { return 204; }
        location / { client_max_body_size 0; client_body_buffer_size 4; proxy_pass http://127.0.0.1:9; } }
      """)
    let pool = rig.worker.shared.pool
    let held = try await hold(.bodies, of: pool)
    defer { held.raise() }
    let pieces = (0..<100).map { piece in String((0..<10_000).map { Character("\((piece + $0) % 10)") }) }
    let client = try rig.ask("POST / HTTP/1.1", "Host: h", "Content-Length: 1000000", body: pieces)
    #expect(client.status == nil && rig.upstreams.isEmpty)
    // A job has the first 16 KiB or more, and as much waits for it.
    #expect(pool.waiting(.bodies, for: Self.address) == 1)
    #expect(client.exchange?.body.received == 40_000)
    #expect(try rig.ask("GET /other HTTP/1.1", "Host: h").status == 204)
    // A small body goes to the disk too, as a whole.
    let small = try rig.ask("POST / HTTP/1.1", "Host: h", "Content-Length: 5", body: ["hello"])
    #expect(small.status == nil && pool.waiting(.bodies, for: Self.address) == 2)
    small.exchange?.clientDidLeave()
    #expect(pool.waiting(.bodies, for: Self.address) == 1)
    held.raise()
    try await rig.turn(until: "the attempt") { !rig.upstreams.isEmpty }
    let upstream = try rig.upstream
    upstream.open()
    try await rig.turn(until: "the body") { upstream.sent.count >= 1_000_000 }
    #expect(upstream.sent.hasSuffix("\r\n\r\n" + pieces.joined()))
    upstream.answer("HTTP/1.1 204 No\r\n\r\n")
    #expect(client.status == 204)
  }

  @Test func `a body goes on to its upstream though its end comes after all of it is written`() async throws {
    let rig = try Rig("server { listen 80; location / { client_body_buffer_size 4; proxy_pass http://127.0.0.1:9; } }")
    let piece = String(repeating: "x", count: 20_000)
    let client = try rig.ask("POST / HTTP/1.1", "Host: h", "Transfer-Encoding: chunked", body: [piece], isWhole: false)
    try await rig.turn(until: "written") {
      guard case .collecting(let kept)? = client.exchange?.body.state else { return false }
      return kept.memory.isEmpty && rig.worker.shared.pool.isIdle(.bodies)
    }
    rig.loop.wakeUp()
    #expect(rig.upstreams.isEmpty)
    client.endBody()
    try await rig.turn(until: "the attempt") { !rig.upstreams.isEmpty }
    try rig.upstream.open()
    try await rig.turn(until: "the body") { try rig.upstream.sent.hasSuffix(piece) }
  }

  @Test func `a body that waits for the disk ends with its client, and its memory`() async throws {
    let rig = try Rig("server { listen 80; location / { client_max_body_size 0; proxy_pass http://127.0.0.1:9; } }")
    let pool = rig.worker.shared.pool
    let held = try await hold(.bodies, of: pool)
    defer { held.raise() }
    let pieces = [String](repeating: String(repeating: "x", count: 100_000), count: 20)
    let clients = try (0..<40).map { _ in
      try rig.ask("POST / HTTP/1.1", "Host: h", "Content-Length: 2000000", body: pieces)
    }
    // 1 MiB of each is with its job, and 128 KiB wait; once they are many, twice 16 KiB in place of both.
    #expect(rig.worker.bodies.used < 40 << 20 && pool.waiting(.bodies, for: Self.address) == 40)
    for client in clients { client.exchange?.clientDidLeave() }
    #expect(rig.worker.bodies.used == 0 && pool.waiting(.bodies, for: Self.address) == 0)
  }

  @Test(arguments: [false, true])
  func `a hash of a body in a file is made beside the loop, and meanwhile the upstream has nothing to say`(
    speaks: Bool
  ) async throws {
    let rig = try Rig(
      """
      server { listen 80; location / { client_body_buffer_size 4; proxy_auth digest; proxy_auth_user_file /nowhere;
        proxy_set_header Connection ""; proxy_pass http://127.0.0.1:9; } }
      """)
    let pool = rig.worker.shared.pool
    let client = try rig.ask("POST / HTTP/1.1", "Host: h", "Content-Length: 5", body: ["hello"])
    try await rig.turn(until: "the attempt") { !rig.upstreams.isEmpty }
    let upstream = try rig.upstream
    upstream.open()
    #expect(upstream.sent.hasPrefix("HEAD / "))
    let held = try await hold(.bodies, of: pool)
    defer { held.raise() }
    upstream.answer(
      "HTTP/1.1 401 Who\r\nWWW-Authenticate: Digest realm=r, nonce=n, qop=auth-int\r\nContent-Length: 0\r\n\r\n")
    #expect(upstream.sent.isEmpty && pool.waiting(.bodies, for: Self.address) == 1)
    if speaks {
      upstream.answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
      #expect(client.status == 502 && upstream.isClosed && pool.waiting(.bodies, for: Self.address) == 0)
    } else {
      held.raise()
      try await rig.turn(until: "the answer") { upstream.sent.hasSuffix("hello") }
      #expect(upstream.sent.contains("qop=auth-int, nc=00000001"))
      upstream.answer("HTTP/1.1 204 No\r\n\r\n")
      #expect(client.status == 204)
    }
  }

  @Test func `a delayed 401 ends with its client`() throws {
    let rig = try Rig(
      "server { listen 80; location / { auth_delay 60s; auth_basic x; auth_basic_user_file /nowhere; stub_status; } }")
    for _ in 0..<3 {
      let client = try rig.ask("GET / HTTP/1.1", "Host: h")
      let waiting = rig.loop.deadlineTargets
      #expect(client.status == nil)
      client.exchange?.clientDidLeave()
      #expect(rig.loop.deadlineTargets < waiting)
    }
  }

  @Test func `however many clients of one address wait for files, none is refused`() async throws {
    let rig = try Rig("server { listen 80; root /nowhere; location /t { if (-f /nowhere/x) { return 204; } } }")
    let pool = rig.worker.shared.pool
    for (work, path) in [(BlockingWork.files, "/a"), (.fileTests, "/t")] {
      let held = try await hold(work, of: pool)
      defer { held.raise() }
      let clients = try (0..<5000).map { _ in try rig.ask("GET \(path) HTTP/1.1", "Host: h") }
      #expect(clients.allSatisfy { $0.status == nil })
      #expect(pool.waiting(work, for: Self.address) == 5000)
      for client in clients { client.exchange?.clientDidLeave() }
      #expect(pool.waiting(work, for: Self.address) == 0)
    }
  }
}
