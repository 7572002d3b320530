import TestSupport
import Testing

/// The first thing that an upstream hears from us, with nothing said of versions and ciphers.
@Suite(.staged) struct `Our ClientHello to upstreams` {
  /// What is said to an upstream that hangs up after it has heard it.
  private func hello(_ scene: Scene, _ lines: String) async throws -> ClientHello {
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      let header = try wire.read(exactly: 5)
      _ = try wire.read(exactly: Int(header[3]) << 8 | Int(header[4]))
    }
    let proxy = try await PlainProxy(
      scene, to: upstream.port, server: "location /tls { proxy_pass https://127.0.0.1:\(upstream.port); \(lines) }")
    #expect(try await proxy.curl("/tls").status == 502)
    let record = try #require(upstream.received.first)
    // A handshake record (RFC 8446 §5.1), and no more than it.
    #expect(record.first == 22)
    return try #require(ClientHello(handshake: Array(record.dropFirst(5))))
  }

  /// Names of suites with their code points, as `openssl ciphers` has them.
  private func suites(_ scene: Scene, _ arguments: String...) async throws -> [(code: UInt16, name: String)] {
    try await scene.run("openssl", ["ciphers", "-V"] + arguments).text.split(separator: "\n").map { line in
      let words = line.split(separator: " ")
      let code = words[0].split(separator: ",").compactMap { UInt16($0.dropFirst(2), radix: 16) }
      return (code[0] << 8 | code[1], String(words[2]))
    }
  }

  @Test func `offers TLS 1.2 and 1.3, and suites with forward secrecy and authenticated encryption only`() async throws
  {
    let scene = try Scene.ofTest()
    let hello = try await hello(scene, "proxy_ssl_verify on;")
    #expect(hello.versions == [0x0304, 0x0303])
    let offered = hello.suites.filter { $0 != ClientHello.renegotiationSignal }
    #expect(
      offered
        == (try await suites(scene, "-s", "ECDHE+AESGCM:ECDHE+CHACHA20:DHE+AESGCM:DHE+CHACHA20:!aDSS")).map(\.code))
    let names = Dictionary(
      try await suites(scene, "ALL:COMPLEMENTOFALL:@SECLEVEL=0").map { ($0.code, $0.name) }, uniquingKeysWith: { $1 })
    for code in offered {
      let name = try #require(names[code])
      #expect(name.hasPrefix("TLS_") || name.contains("DHE-"), "\(name)")
      #expect(name.contains("GCM") || name.contains("CHACHA20"), "\(name)")
      for weak in ["RC4", "DES", "NULL", "EXP", "ADH", "AECDH", "MD5", "DSS", "PSK", "SRP", "IDEA", "SEED", "CAMELLIA"]
      {
        #expect(!name.contains(weak), "\(name)")
      }
    }
  }

  @Test(arguments: [
    ("proxy_ssl_name up.test; proxy_ssl_server_name on;", "up.test" as String?),
    ("proxy_ssl_server_name on; proxy_ssl_name 127.0.0.1;", nil),
    ("proxy_ssl_server_name on; proxy_ssl_name ::1;", nil),
    ("proxy_ssl_server_name on;", nil), ("proxy_ssl_name up.test;", nil),
  ])
  func `names a host where that is said, and never an address`(lines: String, name: String?) async throws {
    let hello = try await hello(try Scene.ofTest(), "proxy_ssl_verify on; \(lines)")
    #expect(hello.serverName == name)
  }

  @Test func `offers what is asked for and no more`() async throws {
    let scene = try Scene.ofTest()
    let hello = try await hello(
      scene, "proxy_ssl_verify on; proxy_ssl_protocols TLSv1.2; proxy_ssl_ciphers ECDHE-RSA-AES128-GCM-SHA256;")
    #expect(hello.versions.isEmpty || hello.versions == [0x0303])
    #expect(hello.suites.filter { $0 != ClientHello.renegotiationSignal } == [0xC02F])
  }
}
