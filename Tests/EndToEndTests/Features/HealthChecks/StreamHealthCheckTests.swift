import Crypto
import Glibc
import Synchronization
import TestSupport
import Testing

/// A daemon whose upstream group `app` of stream is checked, and the page of its metrics.
private struct CheckedStream: Sendable {
  let scene: Scene
  let daemon: Sallyport
  let port: UInt16
  private let metricsPort: UInt16

  /// `server`: the lines of the server of stream, beside its proxy_pass.
  init(_ scene: Scene, _ servers: [String], _ server: String, stream: String = "") async throws {
    self.scene = scene
    let (port, metrics) = (try scene.port(), try scene.port())
    (self.port, metricsPort) = (port, metrics)
    daemon = try await Sallyport.serve(
      scene,
      "server { listen 127.0.0.1:\(metrics); location = /metrics { metrics; } }",
      main: """
        stream { \(stream) upstream app { \(servers.map { "server \($0);" }.joined(separator: " ")) }
          server { listen 127.0.0.1:\(port); proxy_pass app; \(server) } }
        """)
  }

  func metric(_ name: String, _ labels: String) async throws -> Int? {
    let page = try await scene.page(metricsPort, "/metrics").text
    let line = page.split(separator: "\n").first { $0.hasPrefix("\(name){\(labels)} ") }
    return line.flatMap { $0.split(separator: " ").last }.flatMap { Int($0) }
  }

  func until(_ server: String, isUp: Bool) async throws {
    try await TestSupport.until("\(server) to be \(isUp ? "up" : "down")") {
      try await metric("sallyport_upstream_server_up", "upstream=\"app\",server=\"\(server)\",block=\"stream\"")
        == (isUp ? 1 : 0)
    }
  }

  func until(_ server: String, _ result: String, times: Int) async throws {
    try await TestSupport.until("\(times) checks of \(server) that \(result)") {
      try await metric(
        "sallyport_upstream_health_checks_total",
        "upstream=\"app\",server=\"\(server)\",result=\"\(result)\",block=\"stream\"") ?? 0
        >= times
    }
  }

  /// The answers to so many connections that say PING.
  func answers(_ count: Int) async throws -> Set<String> {
    var found: Set<String> = []
    for _ in 0..<count {
      found.insert(
        try await scene.talk(port) { wire in
          try wire.write("PING\r\n")
          return String(decoding: (try? wire.readSome()) ?? [], as: UTF8.self)
        })
    }
    return found
  }

  func reload() async throws {
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: generation 2")
  }
}

/// A server that answers each piece of bytes with a text.
private final class Answering: Sendable {
  let upstream: ScriptedUpstream
  private let answer: Answer
  var address: String { "127.0.0.1:\(upstream.port)" }

  private final class Answer: Sendable {
    let text: Mutex<String>
    init(_ text: String) { self.text = Mutex(text) }
  }

  init(_ scene: Scene, _ text: String) throws {
    let answer = Answer(text)
    self.answer = answer
    upstream = try ScriptedUpstream(scene) { wire, _ in
      while case let bytes = try wire.readSome(), !bytes.isEmpty { try wire.write(answer.text.withLock { $0 }) }
    }
  }

  func say(_ text: String) { answer.text.withLock { $0 = text } }
}

@Suite(.staged) struct `Health checks of stream` {
  private static let redis = #"match redis { send "PING\r\n"; expect "+PONG"; }"#

  @Test func `a server that answers otherwise gets no connections until it is good again`() async throws {
    let scene = try Scene.ofTest()
    let a = try Answering(scene, "+PONG a\r\n"), b = try Answering(scene, "+PONG b\r\n")
    let proxy = try await CheckedStream(
      scene, [a.address, b.address], "health_check interval=50ms fails=2 match=redis; health_check_timeout 1s;",
      stream: Self.redis)
    try await proxy.until(a.address, "passed", times: 1)
    try await proxy.until(b.address, "passed", times: 1)
    #expect(try await proxy.answers(4) == ["+PONG a\r\n", "+PONG b\r\n"])
    a.say("-LOADING\r\n")
    try await proxy.until(a.address, isUp: false)
    #expect(try await proxy.answers(4) == ["+PONG b\r\n"])
    try await proxy.daemon.logged(
      "[error]", "upstream \"app\": server \(a.address) is down: 2 health checks in a row failed, the last one: ",
      "what it sent doesn't contain \"+PONG\"")
    b.say("-LOADING\r\n")
    try await proxy.until(b.address, isUp: false)
    #expect(try await proxy.answers(1) == [""])
    try await proxy.daemon.logged("no live upstreams")
    a.say("+PONG again\r\n")
    try await proxy.until(a.address, isUp: true)
    #expect(try await proxy.answers(2) == ["+PONG again\r\n"])
    try await proxy.daemon.logged("server \(a.address) is up again: health check passed")
  }

  @Test func `a connection is enough without a match block`() async throws {
    let scene = try Scene.ofTest()
    let a = try Answering(scene, "a"), closed = try scene.port()
    let proxy = try await CheckedStream(
      scene, [a.address, "127.0.0.1:\(closed)"], "health_check interval=50ms mandatory;")
    try await proxy.until(a.address, isUp: true)
    try await proxy.until("127.0.0.1:\(closed)", "failed", times: 2)
    try await proxy.daemon.logged("server 127.0.0.1:\(closed)", "Connection refused")
    #expect(try await proxy.answers(4) == ["a"])
    #expect(a.upstream.received.allSatisfy { $0.isEmpty || $0 == Array("PING\r\n".utf8) })
  }

  @Test func `a check has the trust of proxy_pass, and an untrusted server gets no byte`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let certified = try cast.authority.server(names: ["up.test"])
    _ = try scene.identity("up", certified)
    let pinned = try await StartTLSServer.start(scene, "pop3", "up", "tls", "mutual")
    // The same CA, with another key.
    let other = try await StartTLSServer.start(scene, "pop3", "server", "tls", "mutual")
    let proxy = try await CheckedStream(
      scene, ["127.0.0.1:\(pinned.port)", "127.0.0.1:\(other.port)"],
      """
      proxy_ssl on; proxy_ssl_trusted_certificate ca.pem; proxy_ssl_verify_name off;
      proxy_ssl_pin \(Pin.spelling(publicKeyDigest: certified.certificate.spkiSHA256));
      proxy_ssl_certificate alice.pem; proxy_ssl_certificate_key alice.key; health_check interval=50ms match=pop;
      """, stream: #"match pop { send "NOOP\r\n"; expect ~* "ok bye"; }"#)
    try await proxy.until("127.0.0.1:\(pinned.port)", "passed", times: 2)
    try await proxy.until("127.0.0.1:\(other.port)", isUp: false)
    let line = try await proxy.daemon.logged("server 127.0.0.1:\(other.port) is down")
    #expect(line.contains("pin") && line.contains("SSL handshaking"), "\(line)")
    #expect(other.lines("inside").isEmpty && other.lines("peer").allSatisfy { $0 == "alice" })
    #expect(Set(pinned.lines("inside")) == [#"b'NOOP\r\n'"#] && Set(pinned.lines("peer")) == ["alice"])
    let refused = try await proxy.metric("sallyport_upstream_handshakes_total", "result=\"pin\"")
    #expect(try #require(refused) >= 1)
  }

  @Test(arguments: ["postgres", "smtp", "imap", "pop3", "ldap"])
  func `a check asks for TLS as proxy_starttls does, behind a PROXY header of its own`(kind: String) async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let good = try await StartTLSServer.start(scene, kind, "server", "header")
    let refusing = try await StartTLSServer.start(scene, kind, "server", "header", "refuse")
    let injecting = try await StartTLSServer.start(scene, kind, "server", "header", "inject")
    let servers = [good, refusing, injecting].map { "127.0.0.1:\($0.port)" }
    let proxy = try await CheckedStream(
      scene, servers,
      """
      proxy_protocol on; proxy_ssl on; proxy_starttls \(kind); proxy_ssl_trusted_certificate ca.pem;
      proxy_ssl_name localhost; health_check interval=50ms;
      """)
    try await proxy.until(servers[0], "passed", times: 2)
    try await proxy.until(servers[1], isUp: false)
    try await proxy.until(servers[2], isUp: false)
    #expect(Set(good.lines("header")) == [#"b'PROXY UNKNOWN\r\n'"#] && good.lines("inside").isEmpty)
    try await proxy.daemon.logged("server \(servers[1]) is down", kind == "postgres" ? "doesn't offer TLS" : "today")
    try await proxy.daemon.logged("server \(servers[2]) is down", "bytes in clear behind its agreement to TLS")
  }

  @Test func `a check ends at health_check_timeout, whatever trickles in`() async throws {
    let scene = try Scene.ofTest()
    let silent = try ScriptedUpstream(scene) { wire, _ in _ = try? wire.readSome() }
    let drip = try ScriptedUpstream(scene) { wire, _ in
      while true {
        try wire.write("x")
        usleep(20_000)
      }
    }
    let closing = try ScriptedUpstream(scene) { wire, _ in try wire.write("bye") }
    let flood = try ScriptedUpstream(scene) { wire, _ in
      while true { try wire.write([UInt8](repeating: 0x78, count: 10_000)) }
    }
    let servers = [silent, drip, closing, flood].map { "127.0.0.1:\($0.port)" }
    let proxy = try await CheckedStream(
      scene, servers, "health_check interval=50ms match=m; health_check_timeout 300ms;",
      stream: "match m { expect +PONG; }")
    for server in servers { try await proxy.until(server, isUp: false) }
    let timedOut = "upstream timed out (110: Connection timed out): what it sent doesn't contain \"+PONG\""
    for server in servers.prefix(2) { try await proxy.daemon.logged("server \(server) is down", timedOut) }
    try await proxy.daemon.logged("server \(servers[2]) is down", "upstream closed the connection: what it sent")
    try await proxy.daemon.logged("server \(servers[3]) is down: health check failed: what it sent doesn't contain")
  }

  @Test func `another port can be asked, and a reload keeps what is known`() async throws {
    let scene = try Scene.ofTest()
    let a = try Answering(scene, "a"), health = try Answering(scene, "no")
    let proxy = try await CheckedStream(
      scene, [a.address],
      "health_check interval=50ms match=redis port=\(health.upstream.port); health_check_timeout 1s;",
      stream: Self.redis)
    try await proxy.until(a.address, isUp: false)
    try await proxy.reload()
    try await proxy.until(a.address, "failed", times: 3)
    #expect(proxy.daemon.errorLog.split(separator: "\n").count { $0.contains("is down") } == 1)
    #expect(a.upstream.connections == 0)
    health.say("+PONG\r\n")
    try await proxy.until(a.address, isUp: true)
    #expect(try await proxy.answers(1) == ["a"])
  }
}
