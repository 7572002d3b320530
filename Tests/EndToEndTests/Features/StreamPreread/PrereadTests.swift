import Glibc
import TestSupport
import Testing

/// `ssl_preread`: the ClientHello of TLS that goes on to the upstream selects where it goes.
@Suite(.staged) struct `TLS that is passed on by its ClientHello` {
  private static let common = "ssl_preread on; preread_timeout 20s;"

  /// Real TLS servers with certificates of their own.
  private static func servers(_ scene: Scene, _ cast: Cast) async throws -> [String: UInt16] {
    var ports: [String: UInt16] = [:]
    for name in ["a.test", "b.test"] {
      let identity = try scene.identity(name, cast.authority.server(names: [name]))
      ports[name] = try await OpenSSLServer.start(scene, identity, name: name, "-rev", "-alpn", "h2,\(name)").port
    }
    return ports
  }

  /// What openssl's client gets for this name, and whose certificate it verified.
  private static func ask(_ scene: Scene, _ port: UInt16, _ name: String, _ words: String...) async throws -> Bool {
    let arguments = ["-CAfile", scene.path("ca.pem"), "-verify_return_error", "-verify_hostname", name] + words
    let client = try OpenSSLClient(scene, port: port, name: name, arguments)
    // A client that stays would keep the server, which has one connection at a time.
    defer { client.process.stop() }
    return try await offPool {
      try client.wire.write("abc\n")
      return (try? client.wire.line()) == "cba"
    }
  }

  @Test(arguments: ["-tls1_2", "-tls1_3"])
  func `a map of the name leads to a server, whose TLS the client verifies`(version: String) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let ports = try await Self.servers(scene, cast)
    let other = try ScriptedUpstream(scene) { wire, _ in _ = try wire.readSome() }
    let front = try await StreamFront(
      scene, to: "$to", server: Self.common,
      stream: """
        map $ssl_preread_server_name $to {
          hostnames; a.test 127.0.0.1:\(ports["a.test"] ?? 0); *.b.test 127.0.0.1:\(ports["b.test"] ?? 0);
          b.test 127.0.0.1:\(ports["b.test"] ?? 0); default 127.0.0.1:\(other.port);
        }
        """)
    for name in ["a.test", "b.test"] { #expect(try await Self.ask(scene, front.port, name, version), "\(name)") }
    #expect(other.connections == 0)
    #expect(try await !Self.ask(scene, front.port, "c.test", version))
    // Each byte of the ClientHello is the upstream's.
    let hello = try #require(other.received.first)
    #expect(hello.count > 100 && Int(hello[3]) << 8 | Int(hello[4]) == hello.count - 5)
    #expect(ClientHello(handshake: Array(hello.dropFirst(5)))?.serverName == "c.test")
  }

  @Test func `the name selects the server block`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let ports = try await Self.servers(scene, cast)
    let port = try scene.port()
    let (other, wild, whole) = try (
      ScriptedUpstream.named(scene, "other"), ScriptedUpstream.named(scene, "wild"), ScriptedUpstream.named(scene, "re")
    )
    func server(_ names: String, _ target: UInt16, _ words: String = "") -> String {
      "server { listen 127.0.0.1:\(port) \(words); server_name \(names); proxy_pass 127.0.0.1:\(target); }"
    }
    _ = try await Sallyport.start(
      scene,
      streamConfiguration(
        """
        \(Self.common)
        \(server("none.test", other.port, "default_server"))
        \(server("a.test", ports["a.test"] ?? 0))
        \(server("b.test", ports["b.test"] ?? 0))
        \(server("*.c.test", wild.port))
        \(server(#"~^d\d+\.test$"#, whole.port))
        """))
    for name in ["a.test", "b.test", "A.Test"] { #expect(try await Self.ask(scene, port, name), "\(name)") }
    for (name, expected) in [("x.c.test", "wild"), ("d12.test", "re"), ("e.test", "other"), ("", "other")] {
      let said = try await scene.talk(port) { wire in
        try wire.write(Hello.bytes(name.isEmpty ? nil : name))
        return try wire.line()
      }
      #expect(said == expected, "\(name)")
    }
  }

  @Test func `captures of the name are variables`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    _ = try await Sallyport.start(
      scene,
      streamConfiguration(
        #"""
        \#(Self.common)
        server { listen 127.0.0.1:\#(port); return default; }
        server { listen 127.0.0.1:\#(port); server_name ~^(?<who>\w+)\.(\w+)\.test$; return "$who $2"; }
        """#))
    let said = try await scene.talk(port) { wire in
      try wire.write(Hello.bytes("alice.home.test"))
      return try wire.textToEnd()
    }
    #expect(said == "alice home")
  }

  @Test func `what the ClientHello offers are variables`() async throws {
    let scene = try Scene.ofTest()
    let front = try await StreamFront(
      scene,
      server: #"\#(Self.common) return "$ssl_preread_server_name|$ssl_preread_alpn_protocols|$ssl_preread_protocol";"#)
    func ask(_ bytes: [UInt8]) async throws -> String {
      try await front.talk { wire in
        try wire.write(bytes)
        return try wire.textToEnd()
      }
    }
    #expect(try await ask(Hello.bytes("A.Test.", protocols: ["h2", "http/1.1"])) == "a.test|h2,http/1.1|TLSv1.2")
    #expect(try await ask(Hello.bytes(nil, versions: [0x0304, 0x0303])) == "||TLSv1.3")
    #expect(
      try await ask(Hello.bytes("a.test", protocols: ["postgresql"], versions: [0x0304])) == "a.test|postgresql|TLSv1.3"
    )
    // openssl's own hello.
    let relay = try ScriptedUpstream(scene) { client, _ in
      let server = try Wire.dial(port: front.port)
      try server.write(client.read(exactly: 5))
      try server.write(client.readSome())
      try scene.write("openssl.txt", try server.readToEnd())
    }
    _ = try OpenSSLClient(scene, port: relay.port, name: "real.test", ["-alpn", "h2,other"])
    try await until("openssl's hello") { scene.text("openssl.txt") == "real.test|h2,other|TLSv1.3" }
  }

  @Test func `ALPN leads to a server`() async throws {
    let scene = try Scene.ofTest()
    let (web, mail) = try (ScriptedUpstream.named(scene, "web"), ScriptedUpstream.named(scene, "mail"))
    let front = try await StreamFront(
      scene, to: "$to", server: Self.common,
      stream: """
        map $ssl_preread_alpn_protocols $to {
          ~\\bh2\\b 127.0.0.1:\(web.port); imap 127.0.0.1:\(mail.port); default 127.0.0.1:1;
        }
        """)
    for (protocols, expected) in [(["h2", "http/1.1"], "web"), (["imap"], "mail")] {
      let said = try await front.talk { wire in
        try wire.write(Hello.bytes("a.test", protocols: protocols))
        return try wire.line()
      }
      #expect(said == expected)
    }
  }

  // MARK: What isn't a ClientHello

  @Test(arguments: [
    "SSH-2.0-x\r\n", "GET / HTTP/1.1\r\n\r\n", "\u{0}\u{0}\u{0}\u{8}", "\u{15}\u{3}\u{1}\u{0}\u{2}\u{2}\u{28}",
    "\u{16}\u{9}",
    "\u{16}\u{3}\u{1}\u{0}\u{0}", "\u{16}\u{3}\u{1}\u{FF}\u{FF}", "\u{16}\u{3}\u{1}\u{0}\u{4}\u{2}\u{0}\u{0}\u{0}",
    "\n",
  ])
  func `bytes that begin no TLS pass at once, as they are`(said: String) async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.mirror(scene)
    let front = try await StreamFront(
      scene, to: upstream, server: Self.common,
      stream: "map $ssl_preread_server_name$ssl_preread_protocol $none { \"\" yes; default no; }")
    let bytes = said.unicodeScalars.map { UInt8(truncatingIfNeeded: $0.value) }
    let came = try await front.talk { wire in
      try wire.write(bytes)
      return try wire.read(exactly: bytes.count)
    }
    #expect(came == bytes)
  }

  @Test(arguments: [1, 7, 100]) func `a ClientHello may come in pieces, and in many records`(size: Int) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let ports = try await Self.servers(scene, cast)
    let front = try await StreamFront(
      scene, to: "$to", server: Self.common,
      stream: """
        map $ssl_preread_server_name $to { b.test 127.0.0.1:\(ports["b.test"] ?? 0); default 127.0.0.1:1; }
        """)
    // CVE-2026-32305 is another suite's: here, too, no name may be lost in fragments.
    let relay = try ScriptedUpstream.fragmentingRelay(scene, to: front.port, size: size)
    #expect(try await Self.ask(scene, relay.port, "b.test"))
  }

  @Test func `a ClientHello that never ends is cut off at preread_buffer_size`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.mirror(scene)
    let (small, usual) = try (scene.port(), scene.port())
    let daemon = try await Sallyport.start(
      scene,
      streamConfiguration(
        """
        \(Self.common)
        server { listen 127.0.0.1:\(small); preread_buffer_size 200; proxy_pass 127.0.0.1:\(upstream.port); }
        server { listen 127.0.0.1:\(usual); proxy_pass 127.0.0.1:\(upstream.port); }
        """))
    let long = Hello.bytes("a.test", padding: 300)
    let endless = [0x16, 3, 1, 0x40, 0, 1, 0, 0xFF, 0xFF] + [UInt8](repeating: 0, count: 20_000)
    for (port, bytes) in [(small, long), (usual, endless), (small, endless)] {
      let came = try await scene.talk(port) { wire in
        try? wire.write(bytes)
        return try wire.readToEnd()
      }
      #expect(came.isEmpty)
    }
    let came = try await scene.talk(usual) { wire in
      try wire.write(long)
      return try wire.read(exactly: long.count)
    }
    #expect(came == long)
    #expect(upstream.connections == 1)
    try await daemon.logged("preread buffer full while prereading client data")
    try await until("the lines of the sessions") {
      StreamLine.all(scene, small).map(\.status) == ["400", "400"]
        && StreamLine.all(scene, usual).contains { $0.status == "400" }
    }
  }

  @Test func `a client that leaves in the middle of its ClientHello reaches no upstream`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.mirror(scene)
    let front = try await StreamFront(scene, to: upstream, server: Self.common)
    for count in [0, 1, 5, 50] {
      try await front.talk { wire in
        try wire.write(Array(Hello.bytes("a.test").prefix(count)))
        wire.finishWriting()
        #expect(try wire.readToEnd().isEmpty)
      }
    }
    #expect(upstream.connections == 0)
    try await front.endsWithoutSessions()
  }

  @Test func `the PROXY header comes before the ClientHello`() async throws {
    let scene = try Scene.ofTest()
    let front = try await StreamFront(
      scene, listen: "proxy_protocol",
      server: "\(Self.common) set_real_ip_from 127.0.0.1; return \"$remote_addr $ssl_preread_server_name\";")
    let header = Array("PROXY TCP4 192.0.2.7 198.51.100.7 8080 443\r\n".utf8)
    for isTogether in [true, false] {
      let said = try await front.talk { wire in
        if isTogether {
          try wire.write(header + Hello.bytes("a.test"))
        } else {
          for byte in header + Hello.bytes("a.test") { try wire.write([byte]) }
        }
        return try wire.textToEnd()
      }
      #expect(said == "192.0.2.7 a.test")
    }
  }
}

/// A ClientHello as its bytes stand on the wire, of which a test says what is in it.
enum Hello {
  static func bytes(
    _ name: String?, protocols: [String] = [], versions: [UInt16] = [], padding: Int = 0
  ) -> [UInt8] {
    func list16(_ bytes: [UInt8]) -> [UInt8] { [UInt8(bytes.count >> 8), UInt8(bytes.count & 255)] + bytes }
    func list8(_ bytes: [UInt8]) -> [UInt8] { [UInt8(bytes.count)] + bytes }
    var extensions: [UInt8] = []
    if let name { extensions += [0, 0] + list16(list16([0] + list16(Array(name.utf8)))) }
    if !protocols.isEmpty { extensions += [0, 16] + list16(list16(protocols.flatMap { list8(Array($0.utf8)) })) }
    if !versions.isEmpty {
      extensions += [0, 43] + list16(list8(versions.flatMap { [UInt8($0 >> 8), UInt8($0 & 255)] }))
    }
    if padding > 0 { extensions += [0, 21] + list16([UInt8](repeating: 0, count: padding)) }
    let body =
      [3, 3] + [UInt8](repeating: 7, count: 32) + [0] + list16([0x13, 1, 0xC0, 0x2B]) + [1, 0] + list16(extensions)
    let message = [1, 0] + list16(body)
    return [0x16, 3, 1] + list16(message)
  }
}
