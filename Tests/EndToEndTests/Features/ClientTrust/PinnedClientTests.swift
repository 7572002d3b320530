import Bytes
import Crypto
import Glibc
import TestSupport
import Testing

private func pin(_ who: IdentityFiles) -> String {
  Pin.spelling(publicKeyDigest: who.certified.certificate.spkiSHA256)
}

/// `ssl_client_pin`: the daemon lets clients in by their keys, against curl and openssl.
@Suite(.staged) struct `Clients with pinned certificates` {
  static let versions = [["--tlsv1.2", "--tls-max", "1.2"], ["--tlsv1.3"]]

  /// Who the proxy says that the client is, in a page of its own.
  private static let answer = """
    location / { return 200 "verify=$ssl_client_verify verdict=$ssl_client_verdict key=$ssl_client_spki names=$ssl_client_s_dn$ssl_client_i_dn$ssl_client_s_dn_legacy$ssl_client_s_dn_cn$ssl_client_san_dns$ssl_client_san_email$ssl_client_serial$ssl_client_v_start$ssl_client_v_end$ssl_client_v_remain$ssl_client_cert$ssl_client_raw_cert$ssl_client_escaped_cert. reused=$ssl_session_reused\\n"; }
    """

  private static let shown = "ssl_certificate server.pem; ssl_certificate_key server.key;"

  /// A self-signed client with a name that must never count.
  private func selfSigned(_ scene: Scene, _ name: String, commonName: String = "admin") throws -> IdentityFiles {
    try scene.identity(name, TestAuthority().client(.selfSigned, commonName: commonName))
  }

  private func server(_ port: UInt16, _ lines: String, name: String = "localhost") -> String {
    "server { listen 127.0.0.1:\(port) ssl; server_name \(name); \(Self.shown) \(lines) }\n"
  }

  private func ask(
    _ scene: Scene, _ cast: Cast, _ port: UInt16, _ who: IdentityFiles?, _ words: [String] = [], path: String = "/"
  ) async throws -> CurlResult {
    try await scene.curl(cast.to(port) + (who?.curl ?? []) + words + ["https://localhost\(path)"])
  }

  @Test(arguments: versions) func `a self-signed client gets in by its key, and by nothing that it calls itself`(
    version: [String]
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let device = try selfSigned(scene, "device"), other = try selfSigned(scene, "other")
    let upstream = try ScriptedUpstream.echo(scene), port = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
      server(
        port,
        """
        ssl_verify_client on; ssl_client_pin \(pin(device)); \(Self.answer)
        location /up { proxy_pass http://127.0.0.1:\(upstream.port); client_identity rfc9440;
          proxy_set_header X-Key $ssl_client_spki; proxy_set_header X-DN $ssl_client_s_dn; }
        location /mine { ssl_client_allow spki=\(Hex.encode(device.certified.certificate.spkiSHA256)); return 200 mine; }
        location /other { ssl_client_allow spki=\(Hex.encode(other.certified.certificate.spkiSHA256)); return 200 other; }
        location = /metrics { metrics; }
        """))
    let key = Base64.encode(device.certified.certificate.spkiSHA256)
    let page = try await ask(scene, cast, port, device, version)
    #expect(page.status == 200)
    #expect(page.text.hasPrefix("verify=SUCCESS verdict=admitted key=\(key) names=. "), "\(page.text)")

    _ = try await ask(scene, cast, port, device, version, path: "/up")
    #expect(upstream.receivedText.contains("X-Key: \(key)"))
    #expect(!upstream.receivedText.contains("admin") && !upstream.receivedText.contains("Client-Cert"))

    #expect(try await ask(scene, cast, port, device, version, path: "/mine").status == 200)
    #expect(try await ask(scene, cast, port, device, version, path: "/other").status == 403)

    for (who, text) in [(other, "The SSL certificate error"), (cast.alice, "The SSL certificate error")] {
      let refused = try await ask(scene, cast, port, who, version)
      #expect(refused.status == 400 && refused.text.contains(text))
    }
    let nobody = try await ask(scene, cast, port, nil, version)
    #expect(nobody.status == 400 && nobody.text.contains("No required SSL certificate"))
    try await daemon.logged(
      "[notice]",
      "client SSL certificate verify error: (50:certificate matches no pin; its key is \(pin(other)))")
    let metrics = try await ask(scene, cast, port, device, version, path: "/metrics").text
    #expect(metrics.contains("sallyport_client_handshakes_total{verdict=\"pinned\"} 5\n"), "\(metrics)")
    #expect(metrics.contains("sallyport_client_certificate_refusals_total{reason=\"pin\"} 2\n"))
  }

  @Test(arguments: versions) func `beside CAs, the chain and the pin must both hold`(version: [String]) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    let expired = try scene.identity("expired", cast.authority.client(.expired))
    let device = try selfSigned(scene, "device"), port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      server(
        port,
        """
        ssl_client_certificate ca.pem; ssl_verify_client optional;
        ssl_client_pin alice.pem \(pin(device)) \(pin(expired));
        location / { return 200 "$ssl_client_verify $ssl_client_s_dn_cn"; }
        """))
    #expect(try await ask(scene, cast, port, cast.alice, version).text == "SUCCESS alice")
    #expect(try await ask(scene, cast, port, nil, version).text == "NONE ")
    for who in [bob, expired, device] {
      #expect(try await ask(scene, cast, port, who, version).status == 400)
    }
  }

  @Test func `the words of a refused client, and of one that is only reported`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let device = try selfSigned(scene, "device"), other = try selfSigned(scene, "other"), port = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
      server(
        port,
        """
        ssl_verify_client on; ssl_verify_report_only on; ssl_client_pin \(pin(device));
        error_page 495 /why; \(Self.answer)
        """))
    let page = try await ask(scene, cast, port, other)
    #expect(page.status == 200)
    #expect(
      page.text.hasPrefix(
        "verify=FAILED:certificate matches no pin verdict=refused:client SSL certificate verify error: (50:"))
    #expect(page.text.contains(" key= names=. "))
    #expect(try await ask(scene, cast, port, device).text.hasPrefix("verify=SUCCESS verdict=admitted key="))
    try await daemon.logged("[notice]", "report only: client SSL certificate verify error: (50:")
  }

  // MARK: Attacks

  @Test(arguments: ["-tls1_2", "-tls1_3"])
  func `a pinned certificate is worth nothing without its key, and none that is sent along`(version: String)
    async throws
  {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let device = try selfSigned(scene, "device"), other = try selfSigned(scene, "other"), port = try scene.port()
    let daemon = try await Sallyport.start(
      scene, configuration(server(port, "ssl_verify_client on; ssl_client_pin \(pin(device)); \(Self.answer)")))
    func get(_ words: [String]) async throws -> String {
      try await scene.run(
        "openssl",
        ["s_client", "-quiet", "-connect", "127.0.0.1:\(port)", "-servername", "localhost", "-ign_eof", version]
          + words,
        input: Array("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8)
      ).text
    }
    // The public half is the device's, and the private half is somebody's.
    let text = try device.certified.key.pem.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
    var der = try Base64.decode(text.split(separator: "\n").filter { !$0.hasPrefix("-") }.joined())
    let mark: [UInt8] = [0x02, 0x01, 0x01, 0x04, 0x20]
    let place = try #require((0..<der.count - 40).first { Array(der[$0..<$0 + 5]) == mark })
    for index in 0..<32 { der[place + 5 + index] = UInt8(index + 1) }
    let forged = try scene.write(
      "forged.key", text: "-----BEGIN PRIVATE KEY-----\n\(Base64.encode(der))\n-----END PRIVATE KEY-----\n")
    let stolen = try await get(["-cert", device.certificate, "-key", forged])
    #expect(!stolen.contains("verify=") && !stolen.contains("HTTP/1.1"), "\(stolen)")
    // OpenSSL has several words for a wrong signature.
    try await daemon.logged("while SSL handshaking", "bad signature")

    let both = try scene.write("both.pem", text: scene.text("other.pem") + scene.text("device.pem"))
    let sent = try await get(["-cert", other.certificate, "-key", other.key, "-cert_chain", both])
    #expect(sent.contains("400 Bad Request") && !sent.contains("verify="))
    #expect(try await get(["-cert", device.certificate, "-key", device.key]).contains("verify=SUCCESS"))
  }

  @Test func `a Host with other pins than the handshake's is misdirected, one with the same is served`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let device = try selfSigned(scene, "device"), other = try selfSigned(scene, "other"), port = try scene.port()
    let on = "ssl_verify_client on; location / { return 200 $server_name; }"
    _ = try await Sallyport.serve(
      scene,
      server(port, "\(on) ssl_client_pin \(pin(device)) \(pin(other));", name: "a.test")
        // The same keys, by another spelling and in another order.
        + server(port, "\(on) ssl_client_pin other.pem device.pem;", name: "b.test")
        + server(port, "\(on) ssl_client_pin \(pin(device));", name: "c.test")
        + server(port, "\(on) ssl_client_pinning certificate; ssl_client_pin other.pem device.pem;", name: "d.test")
        + server(port, "\(on) ssl_client_certificate ca.pem;", name: "e.test")
        + server(port, "\(on) ssl_client_certificate ca.pem; ssl_client_pin alice.pem;", name: "f.test"))
    for (sni, host, who, status) in [
      ("a.test", "a.test", device, 200), ("a.test", "b.test", device, 200), ("a.test", "c.test", device, 421),
      ("a.test", "d.test", device, 421), ("a.test", "e.test", device, 421), ("c.test", "a.test", device, 421),
      ("c.test", "c.test", other, 400), ("d.test", "d.test", device, 200), ("e.test", "f.test", cast.alice, 421),
      ("f.test", "e.test", cast.alice, 421), ("f.test", "f.test", cast.alice, 200),
    ] {
      let answer = try await scene.ask(tls: port, name: sni, identity: who) { try $0.get("/", host: host) }
      #expect(answer.status == status, "\(sni) to \(host)")
    }
  }

  // MARK: Reloads

  private func resume(
    _ scene: Scene, _ port: UInt16, _ version: String, _ who: IdentityFiles, _ session: [String]
  ) async throws -> String {
    try await scene.run(
      "openssl",
      ["s_client", "-connect", "127.0.0.1:\(port)", "-servername", "localhost", "-ign_eof", version] + who.openssl
        + session, input: Array("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8)
    ).text
  }

  /// Puts a whole file in the place of pins.pem.
  private func put(_ scene: Scene, _ text: String) throws {
    rename(try scene.write("pins.new", text: text), scene.path("pins.pem"))
  }

  @Test(
    arguments: ["-tls1_2", "-tls1_3"],
    ["", "ssl_session_cache shared:s:1m; ssl_session_tickets off;", "ssl_session_ticket_key ticket.key;"])
  func `a client whose pin is taken out of the file neither resumes nor gets in, without a signal`(
    version: String, store: String
  ) async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let device = try selfSigned(scene, "device"), other = try selfSigned(scene, "other"), port = try scene.port()
    try put(scene, scene.text("device.pem") + scene.text("other.pem"))
    try scene.write("ticket.key", (0..<80).map { _ in UInt8.random(in: 0...255) })
    let daemon = try await Sallyport.start(
      scene, configuration(server(port, "\(store) ssl_verify_client on; ssl_client_pin pins.pem; \(Self.answer)")))
    let file = scene.path("session.pem")
    let first = try await resume(scene, port, version, device, ["-sess_out", file])
    #expect(first.contains("verify=SUCCESS") && first.contains("reused=."))
    let again = try await resume(scene, port, version, device, ["-sess_in", file, "-sess_out", file])
    #expect(again.contains("verify=SUCCESS") && again.contains("reused=r") && again.contains("names=. "))
    try put(scene, scene.text("other.pem"))
    try await daemon.logged("reconfigured: ")
    let removed = try await resume(scene, port, version, device, ["-sess_in", file])
    #expect(!removed.contains("verify=SUCCESS") && removed.contains("400 Bad Request"))
    #expect(try await resume(scene, port, version, other, []).contains("verify=SUCCESS"))
  }

  @Test func `a kept connection serves no other request once its pin is gone, and goes on with it`()
    async throws
  {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let device = try selfSigned(scene, "device"), other = try selfSigned(scene, "other"), port = try scene.port()
    try put(scene, scene.text("device.pem"))
    let daemon = try await Sallyport.start(
      scene, configuration(server(port, "ssl_verify_client on; ssl_client_pin pins.pem; \(Self.answer)")))
    try await scene.talk(tls: port, identity: device) { wire in
      try wire.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
      #expect(try wire.response().status == 200)
      try put(scene, scene.text("device.pem") + scene.text("other.pem"))
      while !daemon.errorLog.contains("reconfigured: generation 2") { usleep(10_000) }
      try wire.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
      let answer = try wire.response()
      #expect(answer.status == 200 && answer.text.contains("verify=SUCCESS"))
      try put(scene, scene.text("other.pem"))
      // The end of the stream is the event: nothing of another request would be answered.
      _ = try wire.readToEnd()
    }
    #expect(try await scene.ask(tls: port, identity: device) { try $0.get("/").status } == 400)
    _ = other
  }

  @Test func `a tunnel ends with the pin of its client`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let device = try selfSigned(scene, "device"), other = try selfSigned(scene, "other"), port = try scene.port()
    try put(scene, scene.text("device.pem"))
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.requestHead()
      try wire.write("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nbegun")
      _ = try? wire.readToEnd()
    }
    let daemon = try await Sallyport.serve(
      scene,
      server(
        port,
        """
        ssl_verify_client on; ssl_client_pin pins.pem;
        location / { proxy_pass http://127.0.0.1:\(upstream.port); proxy_buffering off; }
        """))
    try await scene.talk(tls: port, identity: device) { wire in
      try wire.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
      _ = try wire.read(through: "begun")
      try put(scene, scene.text("other.pem"))
      _ = try? wire.readToEnd()
    }
    try await daemon.logged("was cut after a reload", "certificate matches no pin")
    _ = other
  }

  @Test func `a file of pins that is empty, broken or gone keeps the loaded pins, and lets nobody else in`()
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let device = try selfSigned(scene, "device"), other = try selfSigned(scene, "other"), port = try scene.port()
    try put(scene, scene.text("device.pem"))
    let daemon = try await Sallyport.start(
      scene, configuration(server(port, "ssl_verify_client on; ssl_client_pin pins.pem; \(Self.answer)")))
    for (index, text) in ["", "no certificate", scene.text("device.key")].enumerated() {
      try put(scene, text)
      try await until("refusal \(index)") {
        daemon.errorLog.split(separator: "\n").count { $0.contains("[crit]") && $0.contains("NOT in effect") } > index
      }
      #expect(try await ask(scene, cast, port, device).status == 200)
      #expect(try await ask(scene, cast, port, other).status == 400)
    }
    unlink(scene.path("pins.pem"))
    daemon.signal(SIGHUP)
    try await daemon.logged("[crit]", "NOT in effect", "pins.pem", "No such file or directory")
    #expect(try await ask(scene, cast, port, device).status == 200)
    #expect(try await ask(scene, cast, port, other).status == 400)
    try put(scene, scene.text("other.pem"))
    daemon.signal(SIGHUP)
    try await until("the other pin") { try await ask(scene, cast, port, device).status == 400 }
    #expect(try await ask(scene, cast, port, other).status == 200)
  }
}

/// The same in `stream`, where a refusal is an alert.
@Suite(.staged) struct `Clients of stream with pinned certificates` {
  @Test(arguments: ["-tls1_2", "-tls1_3"]) func `a pinned client gets a session, another gets an alert`(
    version: String
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let device = try scene.identity("device", TestAuthority().client(.selfSigned, commonName: "admin"))
    let front = try await StreamFront(
      scene, listen: "ssl",
      server: """
        ssl_certificate server.pem; ssl_certificate_key server.key; ssl_verify_client on; ssl_client_pin \(pin(device));
        return "$ssl_client_verify|$ssl_client_spki|$ssl_client_s_dn_cn|";
        """)
    func ask(_ who: IdentityFiles?) async throws -> ToolResult {
      try await scene.run(
        "openssl",
        ["s_client", "-quiet", "-connect", "127.0.0.1:\(front.port)", "-servername", "localhost", "-ign_eof", version]
          + (who?.openssl ?? []), input: [])
    }
    let key = Base64.encode(device.certified.certificate.spkiSHA256)
    #expect(try await ask(device).text.contains("SUCCESS|\(key)||"))
    for who in [cast.alice, nil] {
      let refused = try await ask(who)
      #expect(!refused.text.contains("|") && refused.everything.contains("alert"), "\(refused.everything)")
    }
    try await front.daemon.logged("no ssl_client_pin matches it; its key is \(pin(cast.alice))")
  }
}
