import Foundation
import Glibc
import Synchronization
import TestSupport
import Testing

@Suite(.staged) struct `Session resumption` {
  static let versions = ["-tls1_2", "-tls1_3"]
  static let stores = [
    "", "ssl_session_cache shared:sessions:1m; ssl_session_tickets off;", "ssl_session_cache shared:sessions:1m;",
  ]
  private static let answer =
    #"location / { return 200 "reused=$ssl_session_reused verify=$ssl_client_verify dn=$ssl_client_s_dn\n"; }"#

  /// One request over openssl s_client; the session goes to and comes from a file.
  private func ask(
    _ scene: Scene, _ port: UInt16, _ name: String, _ version: String, identity: IdentityFiles?, _ session: [String]
  ) async throws -> ToolResult {
    try await scene.run(
      "openssl",
      ["s_client", "-connect", "127.0.0.1:\(port)", "-servername", name, "-ign_eof", version]
        + (identity?.openssl ?? []) + session,
      input: Array("GET / HTTP/1.1\r\nHost: \(name)\r\nConnection: close\r\n\r\n".utf8))
  }

  @Test(arguments: versions, stores) func `a session is resumed, and still knows the client`(
    version: String, store: String
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      "server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) \(store) \(Self.answer) }",
      main: "")
    let file = scene.path("session.pem")
    let first = try await ask(scene, port, "localhost", version, identity: cast.alice, ["-sess_out", file])
    #expect(first.text.contains("reused=. verify=SUCCESS dn=CN=alice"))
    // Either worker may accept: with stateful sessions both must find it.
    for _ in 0..<4 {
      let again = try await ask(
        scene, port, "localhost", version, identity: cast.alice, ["-sess_in", file, "-sess_out", file])
      #expect(again.text.contains("reused=r verify=SUCCESS dn=CN=alice"))
    }
  }

  /// As in nginx, where OpenSSL gets the command behind the directive.
  @Test(arguments: versions) func `ssl_conf_command turns tickets on that ssl_session_tickets turns off`(
    version: String
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) ssl_session_tickets off;
        ssl_conf_command Options SessionTicket; \(Self.answer) }
      """)
    let file = scene.path("session.pem")
    _ = try await ask(scene, port, "localhost", version, identity: cast.alice, ["-sess_out", file])
    let again = try await ask(scene, port, "localhost", version, identity: cast.alice, ["-sess_in", file])
    #expect(again.text.contains("reused=r verify=SUCCESS dn=CN=alice"), "\(again.text)")
  }

  @Test(arguments: versions) func `without tickets and cache nothing is resumed`(version: String) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) ssl_session_cache off;
        ssl_session_tickets off; \(Self.answer) }
      """)
    let file = scene.path("session.pem")
    _ = try await ask(scene, port, "localhost", version, identity: cast.alice, ["-sess_out", file])
    guard !scene.bytes("session.pem").isEmpty else { return }
    let again = try await ask(scene, port, "localhost", version, identity: cast.alice, ["-sess_in", file])
    #expect(again.text.contains("reused=. verify=SUCCESS"))
  }

  @Test(arguments: versions, stores) func `CVE-2025-23419: a session never crosses into a stricter server block`(
    version: String, store: String
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let other = try TestAuthority("Other")
    try scene.anchors("other", other)
    let port = try scene.port()
    let material = "ssl_certificate server.pem; ssl_certificate_key server.key; \(store) \(Self.answer)"
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; server_name open.test; \(material) }
      server { listen 127.0.0.1:\(port) ssl; server_name maybe.test; \(material)
        ssl_client_certificate ca.pem; ssl_verify_client optional; }
      server { listen 127.0.0.1:\(port) ssl; server_name a.test; \(material)
        ssl_client_certificate ca.pem; ssl_verify_client on; }
      server { listen 127.0.0.1:\(port) ssl; server_name b.test; \(material)
        ssl_client_certificate other.pem; ssl_verify_client on; }
      server { listen 127.0.0.1:\(port) ssl; server_name unchecked.test; \(material)
        ssl_client_certificate ca.pem; ssl_verify_client optional_no_ca; }
      """)
    let file = scene.path("session.pem")
    for (from, identity, to) in [
      ("open.test", nil, "a.test"), ("maybe.test", nil, "a.test"), ("a.test", cast.alice, "b.test"),
      ("unchecked.test", cast.alice, "b.test"),
    ] {
      let first = try await ask(scene, port, from, version, identity: identity, ["-sess_out", file])
      #expect(first.text.contains("HTTP/1.1 200"))
      let crossed = try await ask(scene, port, to, version, identity: nil, ["-sess_in", file])
      #expect(!crossed.text.contains("HTTP/1.1 200"), "\(from) to \(to)")
      #expect(!crossed.text.contains("Reused"), "\(from) to \(to)")
      try scene.write("session.pem", [])
    }
  }

  /// Whoever has heard a client's first ClientHello can send it again, and its PSK binder is right.
  @Test(arguments: stores)
  func `CVE-2026-34873: a ticket, a HelloRetryRequest and then TLS 1.2 make nobody that client`(store: String)
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) ssl_ecdh_curve secp256r1; \(store)
        \(Self.answer) }
      """)
    let file = scene.path("session.pem")
    let groups = ["-groups", "X25519:P-256"]
    let first = try await ask(
      scene, port, "localhost", "-tls1_3", identity: cast.alice, groups + ["-sess_out", file])
    #expect(first.text.contains("reused=. verify=SUCCESS dn=CN=alice"))
    let heard = Mutex<[UInt8]>([])
    let ear = try ScriptedUpstream(scene) { wire, _ in
      let header = try wire.read(exactly: 5)
      let record = try header + wire.read(exactly: Int(header[3]) << 8 | Int(header[4]))
      heard.withLock { $0 = record }
    }
    _ = try await ask(scene, ear.port, "localhost", "-tls1_3", identity: nil, groups + ["-sess_in", file])
    let hello = heard.withLock { $0 }
    #expect(hello.count > 200)
    let random = Array(hello[11..<43]), session = Array(hello[43...].prefix(1 + Int(hello[43])))
    for hasSession in [true, false] {
      let body: [UInt8] =
        [3, 3] + random + (hasSession ? session : [0]) + [0, 4, 0xC0, 0x2B, 0xC0, 0x2F, 1, 0]
        + Self.block([0, 10, 0, 4, 0, 2, 0, 23, 0, 13, 0, 6, 0, 4, 4, 3, 8, 4, 0, 23, 0, 0])
      let message = [1, 0] + Self.block(body)
      let answer = try await scene.talk(port) { wire in
        try wire.write(hello)
        let header = try wire.read(exactly: 5)
        let retry = try wire.read(exactly: Int(header[3]) << 8 | Int(header[4]))
        // The random of a HelloRetryRequest (RFC 8446 §4.1.3).
        #expect(header[0] == 22 && retry[6...].starts(with: [0xCF, 0x21, 0xAD, 0x74]))
        try wire.write([20, 3, 3, 0, 1, 1, 22, 3, 3] + Self.block(message))
        return try wire.readToEnd()
      }
      // Perhaps a change_cipher_spec, and then an alert.
      let rest = answer.starts(with: [20]) ? Array(answer.dropFirst(6)) : answer
      #expect(rest.first == 21 && rest.count == 7, "\(answer.prefix(20))")
    }
    // A session is handed out once, so the first ClientHello has spent it.
    let spent = try await ask(scene, port, "localhost", "-tls1_3", identity: nil, groups + ["-sess_in", file])
    #expect(spent.text.contains("400 No required SSL certificate was sent"))
  }

  /// The ticket of TLS 1.3 has no secret of TLS 1.2, so a server that took it would derive keys that anybody knows.
  @Test(arguments: stores + ["ssl_session_ticket_key ticket.key;"])
  func `CVE-2026-93831: a ticket of TLS 1.3 resumes nothing in TLS 1.2`(store: String) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try scene.port()
    try scene.write("ticket.key", (0..<80).map { _ in UInt8.random(in: 0...255) })
    _ = try await Sallyport.serve(
      scene,
      "server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) \(store) \(Self.answer) }")
    let file = scene.path("session.pem")
    let first = try await ask(scene, port, "localhost", "-tls1_3", identity: cast.alice, ["-sess_out", file])
    #expect(first.text.contains("reused=. verify=SUCCESS dn=CN=alice"))
    let heard = Mutex<[UInt8]>([])
    let ear = try ScriptedUpstream(scene) { wire, _ in
      let header = try wire.read(exactly: 5)
      let record = try wire.read(exactly: Int(header[3]) << 8 | Int(header[4]))
      heard.withLock { $0 = record }
    }
    _ = try await ask(scene, ear.port, "localhost", "-tls1_3", identity: nil, ["-sess_in", file])
    let ticket = try #require(Self.ticket(inHello: heard.withLock { $0 }))
    #expect(ticket.count >= 32)
    // The name is the one that the session was made under (RFC 6066 §3), and the secret is extended (RFC 7627).
    let name = Array("localhost".utf8)
    let serverName = [0, 0] + Self.block(Self.block([0] + Self.block(name)))
    for (sessionID, ticketBytes) in [
      ([], ticket), (Array(ticket.prefix(32)), ticket), (Array(ticket.prefix(32)), []),
    ] {
      let extensions: [UInt8] =
        serverName + [0, 10, 0, 6, 0, 4, 0, 29, 0, 23, 0, 13, 0, 6, 0, 4, 4, 3, 8, 4, 0, 23, 0, 0, 0, 35]
        + Self.block(ticketBytes)
      let body: [UInt8] =
        [3, 3] + (0..<32).map { _ in UInt8.random(in: 0...255) } + [UInt8(sessionID.count)] + sessionID
        + [0, 4, 0xC0, 0x2B, 0xC0, 0x2F, 1, 0] + Self.block(extensions)
      let message = [1, 0] + Self.block(body)
      let hello: [UInt8] = [22, 3, 3] + Self.block(message)
      let kinds = try await scene.talk(port) { wire -> [UInt8] in
        try wire.write(hello)
        var kinds: [UInt8] = []
        // ServerHello and Certificate of a full handshake; a resumed one goes on with a ticket or change_cipher_spec.
        while kinds.count < 2 {
          let header = try wire.read(exactly: 5)
          let record = try wire.read(exactly: Int(header[3]) << 8 | Int(header[4]))
          guard header[0] == 22 else { return kinds + [header[0]] }
          var rest = record[...]
          while rest.count >= 4 {
            let bytes = Array(rest.prefix(4))
            kinds.append(bytes[0])
            rest = rest.dropFirst(4 + (Int(bytes[1]) << 16 | Int(bytes[2]) << 8 | Int(bytes[3])))
          }
        }
        return kinds
      }
      #expect(kinds.starts(with: [2, 11]), "\(kinds)")
    }
  }

  /// The first identity of pre_shared_key (RFC 8446 §4.2.11), the last extension of a ClientHello.
  private static func ticket(inHello hello: [UInt8]) -> [UInt8]? {
    func number(_ place: Int) -> Int { place + 1 < hello.count ? Int(hello[place]) << 8 | Int(hello[place + 1]) : 0 }
    guard hello.count > 40 else { return nil }
    var place = 38
    place += 1 + Int(hello[place])
    place += 2 + number(place)
    guard place < hello.count else { return nil }
    place += 1 + Int(hello[place])
    place += 2
    while place + 4 <= hello.count {
      if number(place) == 41 {
        let size = number(place + 6)
        return place + 8 + size <= hello.count ? Array(hello[place + 8..<place + 8 + size]) : nil
      }
      place += 4 + number(place + 2)
    }
    return nil
  }

  /// A vector of TLS with a length of two bytes.
  private static func block(_ bytes: [UInt8]) -> [UInt8] {
    [UInt8(truncatingIfNeeded: bytes.count >> 8), UInt8(truncatingIfNeeded: bytes.count)] + bytes
  }

  @Test(arguments: versions) func `a session is not resumed after a reload took away its CA`(version: String)
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene, configuration("server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) \(Self.answer) }")
    )
    let file = scene.path("session.pem")
    let first = try await ask(scene, port, "localhost", version, identity: cast.alice, ["-sess_out", file])
    #expect(first.text.contains("verify=SUCCESS"))
    try scene.anchors("ca", TestAuthority("New"))
    daemon.signal(SIGHUP)
    try await until("the reload to count") {
      let result = try await ask(scene, port, "localhost", version, identity: cast.alice, [])
      return result.text.contains("400 Bad Request")
    }
    let again = try await ask(scene, port, "localhost", version, identity: cast.alice, ["-sess_in", file])
    #expect(!again.text.contains("verify=SUCCESS"))
  }

  @Test(arguments: versions)
  func `CVE-2024-2511: sessions that nobody resumes take no more memory than the store's bound`(
    version: String
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls)
        ssl_session_cache shared:sessions:1m; ssl_session_timeout 1d; \(Self.answer) }
      """)
    // Each a connection and a full handshake of its own, which leaves a session behind.
    func shake(_ count: Int) async throws {
      let result = try await scene.curl(
        cast.to(port) + cast.alice.curl + [
          "--no-sessionid", "-H", "Connection: close", version == "-tls1_2" ? "--tls-max" : "--tlsv1.3",
        ] + (version == "-tls1_2" ? ["1.2"] : []) + ["https://localhost/[1-\(count)]"])
      #expect(result.status == 200)
    }
    try await shake(400)
    // Of the whole memory, pages of the program's file are most, and the system drops those at its own times.
    guard ProcessInfo.processInfo.environment["SALLYPORT_SANITIZER"] == nil, let before = daemon.memory("RssAnon")
    else {
      return
    }
    // One client's sessions share its certificate, so each takes 1.6 KiB: without a bound they would be 1,900 KiB.
    for _ in 0..<3 { try await shake(400) }
    try await until("less than 900 KiB more than \(before) KiB") {
      try #require(daemon.memory("RssAnon")) - before < 900
    }
  }
}
