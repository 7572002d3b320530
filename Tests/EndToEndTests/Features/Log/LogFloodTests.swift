import Crypto
import Foundation
import Glibc
import TestSupport
import Testing

/// What happens again and again does not fill the log, and what happens once is in it.
@Suite(.staged) struct `A log under attack` {
  private func lines(_ daemon: Sallyport, with words: String...) -> [Substring] {
    daemon.errorLog.split(whereSeparator: \.isNewline).filter { line in words.allSatisfy { line.contains($0) } }
  }

  @Test func `handshakes that are abandoned, failed or waited for leave a line`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await MutualProxy(scene, server: "client_header_timeout 300ms;")
    try await scene.talk(front.port) { try $0.write([0x16, 0x03, 0x01]) }
    try await front.daemon.logged(
      "[info]", "peer closed connection in SSL handshake while SSL handshaking, client: 127.0.0.1, server: localhost")
    try await scene.talk(front.port) { wire in
      try wire.write([0x16, 0x03, 0x01])
      wire.reset()
    }
    try await front.daemon.logged("[info]", "104: Connection reset by peer) while SSL handshaking")
    try await scene.talk(front.port) { wire in
      let isClosed = try wire.isClosedByPeer()
      #expect(isClosed)
    }
    try await front.daemon.logged(
      "[info]", "client timed out (110: Connection timed out) while SSL handshaking, client: 127.0.0.1")
    try await scene.talk(front.port) { wire in
      try wire.write("nonsense, and enough of it\r\n\r\n")
      #expect(try wire.isClosedByPeer())
    }
    try await front.daemon.logged("[info]", "SSL_do_handshake() failed (SSL: ", "while SSL handshaking")
    #expect(
      try await scene.curl(cast.to(front.port) + cast.alice.curl + ["https://localhost/"]).status == 200)
  }

  @Test func `a crowd of abandoned handshakes is five lines and a number, over all workers`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let front = try await MutualProxy(scene)
    let crowd = 300
    try await offPool { for _ in 0..<crowd { try Wire.dial(port: front.port).close() } }
    try await until("all of them to have ended") {
      lines(front.daemon, with: "peer closed connection in SSL handshake").count == 5
    }
    front.daemon.signal(SIGQUIT)
    _ = try await front.daemon.process.ended()
    let summaries = lines(front.daemon, with: "more handshakes of clients failed: ")
    // The worker that writes them can end before the other one, whose last ones then are in another summary.
    #expect((1...2).contains(summaries.count), "\(front.daemon.errorLog)")
    #expect(lines(front.daemon, with: "handshake").count == 5 + summaries.count, "\(front.daemon.errorLog)")
    let line = try #require(summaries.first)
    let told = summaries.reduce(0) { told, line in
      told + (line.components(separatedBy: "failed: ").last?.split(separator: " ").first.flatMap { Int($0) } ?? 0)
    }
    // The last ones may not have been accepted when the drain began.
    #expect(told > crowd / 2 && told <= crowd - 5, "\(line)")
    #expect(line.contains("abandoned-before-hello ") && line.hasSuffix("; clients: 127.0.0.1"), "\(line)")
  }

  @Test func `a client that is refused again and again is some lines and a number`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await MutualProxy(scene, server: "ssl_client_allow cn=nobody;")
    let targets = (0..<60).map { "https://localhost/\($0)" }
    _ = try await scene.run("curl", ["-s"] + cast.to(front.port) + cast.alice.curl + targets)
    front.daemon.signal(SIGQUIT)
    _ = try await front.daemon.process.ended()
    #expect(lines(front.daemon, with: "[error]", "access forbidden by rule", "subject: \"CN=alice").count == 20)
    #expect(
      lines(front.daemon, with: "[error]", "more clients were refused: 40 in ", "rule 40; clients: 127.0.0.1").count
        == 1,
      "\(front.daemon.errorLog)")
  }

  @Test(arguments: ["-tls1_2", "-tls1_3"])
  func `a refused client is told by subject, issuer and serial`(version: String) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let expired = try scene.identity("expired", cast.authority.client(.expired, commonName: "ex\"pired"))
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    for rejection in ["http", "handshake"] {
      let front = try await MutualProxy(scene, server: "ssl_verify_reject \(rejection); ssl_client_allow cn=alice;")
      for (identity, level, reason) in [
        (expired, "[notice]", "(10:certificate has expired)"), (bob, "[error]", "access forbidden by rule"),
      ] {
        _ = try await scene.run(
          "openssl",
          ["s_client", "-connect", "127.0.0.1:\(front.port)", "-servername", "localhost", "-ign_eof", version]
            + identity.openssl, input: Array("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8))
        let certificate = identity.certified.certificate
        try await front.daemon.logged(
          level, reason,
          ", subject: \"\(certificate.subject)\", issuer: \"\(certificate.issuer)\", serial: \(certificate.serial)")
      }
      front.daemon.signal(SIGTERM)
      _ = try await front.daemon.process.ended()
      unlink(scene.path("sallyport.pid"))
      unlink(scene.path("error.log"))
    }
  }

  @Test func `a name without end is cut short in the log`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let long = try scene.identity(
      "long", TestAuthority("Other").client(commonName: "x" + String(repeating: "é", count: 31)))
    let front = try await MutualProxy(scene)
    let answer = try await scene.curl(cast.to(front.port) + long.curl + ["https://localhost/"])
    #expect(answer.status == 400)
    let line = try await front.daemon.logged("client SSL certificate verify error", "subject: ")
    #expect(
      line.utf8.count < 1000 && line.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x80 || $0 >= 0xC2 || $0 & 0xC0 == 0x80 })
  }

  @Test func `one dead upstream is one line, and another when it is back`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let proxy = try await PlainProxy(scene, to: port)
    for _ in 0..<60 { #expect(try await proxy.curl("/").status == 502) }
    let dead = "connect() failed (111: Connection refused) while connecting to upstream"
    // Both workers together write one line, and one that says what it means.
    #expect(lines(proxy.daemon, with: "[error]", dead, "client: 127.0.0.1").count == 1)
    let server = "upstream \"127.0.0.1:\(port)\": server 127.0.0.1:\(port)"
    #expect(lines(proxy.daemon, with: "[error]", "\(server) is down: \(dead)").count == 1, "\(proxy.daemon.errorLog)")
    #expect(lines(proxy.daemon, with: dead).count == 2)
    // What is not told is in the access log.
    try await until("the access log") { scene.text("access.log").split(separator: "\n").count == 60 }
    let back = try ScriptedUpstream(scene, port: port) { wire, _ in try wire.serve { _ in try wire.answer("ok") } }
    try await until("the line that it is back") {
      let answer = try await proxy.curl("/")
      return answer.text == "ok" && lines(proxy.daemon, with: "[error]", "\(server) is up again after").count >= 1
    }
    let line = try await proxy.daemon.logged("is up again after", "60 attempts failed")
    #expect(line.contains(server))
    #expect(lines(proxy.daemon, with: "is up again").count == 1)
    _ = back
  }

  @Test func `an upstream that takes requests and never answers is down after three of them, in ten lines`()
    async throws
  {
    let scene = try Scene.ofTest()
    let over = Flag()
    let silent = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.request()
      over.wait()
    }
    let proxy = try await PlainProxy(scene, to: silent.port, http: "proxy_read_timeout 100ms;")
    for _ in 0..<12 { #expect(try await proxy.curl("/").status == 504) }
    over.raise()
    let text = "upstream timed out (110: Connection timed out) while reading response header from upstream"
    try await proxy.daemon.logged("is down: 3 attempts in a row failed, the last one: \(text)")
    #expect(lines(proxy.daemon, with: "[error]").count <= 10 && lines(proxy.daemon, with: text).count == 2)
  }
}
