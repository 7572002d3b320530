import Crypto
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

  @Test func `a crowd of abandoned handshakes is a number`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let front = try await MutualProxy(scene)
    let crowd = 300
    try await offPool { for _ in 0..<crowd { try Wire.dial(port: front.port).close() } }
    try await front.daemon.logged("[info]", "more handshakes failed: of more than 20 a second the lines are left out")
    func told() -> Int {
      let one = lines(front.daemon, with: "peer closed connection in SSL handshake")
      let many = lines(front.daemon, with: "more handshakes failed")
      return one.count
        + many.reduce(0) { sum, line in
          sum
            + (line.split(separator: ": ").last { $0.contains("more handshakes") }
              .flatMap { $0.split(separator: " ").first.flatMap { Int($0) } } ?? 0)
        }
    }
    try await until("each of them to be counted") { told() == crowd }
    #expect(lines(front.daemon, with: "peer closed connection in SSL handshake").count < crowd / 2)
  }

  @Test(arguments: ["-tls1_2", "-tls1_3"])
  func `a refused client is told by subject, issuer and serial`(version: String) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let expired = try scene.identity("expired", cast.authority.client(.expired, commonName: "ex\"pired"))
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    for rejection in ["http", "handshake"] {
      let front = try await MutualProxy(scene, server: "ssl_verify_reject \(rejection); ssl_client_allow cn=alice;")
      for (identity, level, reason) in [
        (expired, "[info]", "(10:certificate has expired)"), (bob, "[error]", "access forbidden by rule"),
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
    // Each of two workers tells for itself.
    #expect((1...2).contains(lines(proxy.daemon, with: "[error]", dead).count))
    #expect(lines(proxy.daemon, with: dead).count <= 2)
    // What is not told is in the access log.
    try await until("the access log") { scene.text("access.log").split(separator: "\n").count == 60 }
    let back = try ScriptedUpstream(scene, port: port) { wire, _ in try wire.serve { _ in try wire.answer("ok") } }
    try await until("the line that it is back") {
      let answer = try await proxy.curl("/")
      return answer.text == "ok" && lines(proxy.daemon, with: "[error]", "upstream answers again, after").count >= 1
    }
    let line = try await proxy.daemon.logged("upstream answers again, after", "failures in")
    #expect(line.contains("upstream: \"http://127.0.0.1:\(port)\""))
    _ = back
  }
}
