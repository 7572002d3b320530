import Crypto
import Glibc
import TestSupport
import Testing

/// Who may open a session of `stream`, and what is told of the client.
@Suite(.staged) struct `Clients of stream` {
  /// A server that says who the client is, and ends.
  private static let answer =
    "return \"$remote_addr|$realip_remote_addr|$proxy_protocol_addr|$ssl_client_verify|$ssl_client_s_dn_cn|$ssl_client_verdict\";"

  // MARK: The PROXY protocol of clients

  @Test func `the PROXY header says where the client is, if set_real_ip_from believes it`() async throws {
    let scene = try Scene.ofTest()
    let (believed, doubted) = try (scene.port(), scene.port())
    _ = try await Sallyport.start(
      scene,
      streamConfiguration(
        """
        server { listen 127.0.0.1:\(believed) proxy_protocol; set_real_ip_from 127.0.0.0/8;
          allow 192.0.2.0/24; allow 2001:db8::/32; deny all; \(Self.answer) }
        server { listen 127.0.0.1:\(doubted) proxy_protocol; set_real_ip_from 10.0.0.0/8;
          deny 192.0.2.0/24; allow all; \(Self.answer) }
        """))
    func ask(_ port: UInt16, _ header: [UInt8]) async throws -> String {
      try await scene.talk(port) { wire in
        // Byte by byte, and with the client's own bytes behind it. A broken header ends the connection at its first byte.
        for byte in header { try? wire.write([byte]) }
        try? wire.write("hello")
        return try wire.textToEnd()
      }
    }
    let signature: [UInt8] = [13, 10, 13, 10, 0, 13, 10, 0x51, 0x55, 0x49, 0x54, 10]
    let first = Array("PROXY TCP4 192.0.2.7 198.51.100.7 8080 443\r\n".utf8)
    let second = signature + [0x21, 0x11, 0, 12, 192, 0, 2, 8, 198, 51, 100, 7, 1, 2, 3, 4]
    let third = Array("PROXY TCP6 2001:db8::7 2001:db8::8 8080 443\r\n".utf8)
    #expect(try await ask(believed, first) == "192.0.2.7|127.0.0.1|192.0.2.7|||")
    #expect(try await ask(believed, second) == "192.0.2.8|127.0.0.1|192.0.2.8|||")
    #expect(try await ask(believed, third) == "2001:db8::7|127.0.0.1|2001:db8::7|||")
    #expect(try await ask(doubted, first) == "127.0.0.1|127.0.0.1|192.0.2.7|||")
    // The header's address is judged, and a header that names none leaves the connection's.
    #expect(try await ask(believed, Array("PROXY TCP4 203.0.113.7 198.51.100.7 1 2\r\n".utf8)).isEmpty)
    #expect(try await ask(believed, Array("PROXY UNKNOWN\r\n".utf8)).isEmpty)
    #expect(try await ask(doubted, Array("PROXY UNKNOWN\r\n".utf8)) == "127.0.0.1|127.0.0.1||||")
    for broken in ["GET / HTTP/1.1\r\n", "PROXY TCP4 192.0.2.7 198.51.100.7 8080 443\n", "PROXY TCP9 a b 1 2\r\n"] {
      #expect(try await ask(doubted, Array(broken.utf8)).isEmpty, "\(broken)")
    }
    try await until("the lines of all sessions") {
      StreamLine.all(scene, believed).map(\.status).sorted() == ["200", "200", "200", "403", "403"]
        && StreamLine.all(scene, doubted).map(\.status).sorted() == ["200", "200", "400", "400", "400"]
    }
  }

  @Test func `the TLVs of a header are variables, and TLS follows the header`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let front = try await StreamFront(
      scene, listen: "ssl proxy_protocol",
      server: """
        \(Cast.tls) set_real_ip_from 127.0.0.1;
        return "$remote_addr|$proxy_protocol_tlv_alpn|$proxy_protocol_tlv_0x05|$proxy_protocol_tlv_ssl_cn|$ssl_client_s_dn_cn|$proxy_protocol_tlv_0x03|$proxy_protocol_tlv_ssl_verify";
        """)
    func tlv(_ type: UInt8, _ value: [UInt8]) -> [UInt8] { [type, 0, UInt8(value.count)] + value }
    let inner = [7, 0, 0, 0, 0] + tlv(0x22, Array("eve".utf8))
    let content =
      [192, 0, 2, 1, 198, 51, 100, 7, 1, 2, 3, 4] + tlv(1, Array("h2".utf8)) + tlv(5, Array("id".utf8))
      + tlv(0x20, inner) + tlv(3, Array("4321".utf8))
    let header = [13, 10, 13, 10, 0, 13, 10, 0x51, 0x55, 0x49, 0x54, 10, 0x21, 0x11, 0, UInt8(content.count)] + content
    let text = header.map { "\\x" + String(format2($0)) }.joined()
    #expect(
      try await scene.tlsClient(front.port, TLSSteps("clear=\(text)", "tls", "rest"))
        == "192.0.2.1|h2|id|eve|alice|4321|0<end>")
  }

  private func format2(_ byte: UInt8) -> String {
    let digits = String(byte, radix: 16)
    return digits.count == 1 ? "0" + digits : digits
  }

  // MARK: The PROXY protocol to upstreams

  @Test func `an upstream is told where the client is, before its first byte`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.read(through: "hello")
      try wire.write("ok")
    }
    let front = try await StreamFront(
      scene, to: upstream, listen: "proxy_protocol", server: "set_real_ip_from 127.0.0.1; proxy_protocol on;")
    #expect(
      try await front.talk { wire in
        try wire.write("PROXY TCP4 192.0.2.7 198.51.100.7 8080 443\r\nhello")
        return try wire.textToEnd()
      } == "ok")
    #expect(
      upstream.receivedText.hasPrefix("PROXY TCP4 192.0.2.7 127.0.0.1 8080 \(front.port)\r\n")
        && upstream.receivedText.hasSuffix("hello"))
  }

  @Test(arguments: ["", "certificate"])
  func `an upstream gets what version 2 tells of the client's certificate`(words: String) async throws {
    let scene = try Scene.ofTest()
    let cast = try Cast(scene)
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      let head = try wire.read(exactly: 16)
      _ = try wire.read(exactly: Int(head[14]) << 8 | Int(head[15]))
      _ = try wire.read(exactly: 5)
      try wire.write("ok")
    }
    let front = try await StreamFront(
      scene, to: upstream, listen: "ssl", server: "\(Cast.tls(verify: "optional")) proxy_protocol v2 \(words);")
    #expect(try await scene.tlsClient(front.port, TLSSteps("tls", "send=hello", "rest")) == "ok<end>")
    #expect(try await scene.tlsClient(front.port, TLSSteps("as=none", "tls", "send=hello", "rest")) == "ok<end>")
    let headers = try upstream.received.map { try Header($0) }
    let known = headers[0], unknown = headers[1]
    for header in headers {
      #expect(header.addresses.prefix(4) == [127, 0, 0, 1] && header.rest == Array("hello".utf8))
      #expect(String(decoding: header.inner[0x21] ?? [], as: UTF8.self) == "TLSv1.3")
    }
    let leaf = cast.alice.certified.certificate
    // PP2_CLIENT_SSL, _CERT_CONN and _CERT_SESS, and no fault of the verification.
    #expect(known.ssl.first == 7 && known.ssl.dropFirst().prefix(4).allSatisfy { $0 == 0 })
    #expect(known.inner[0x22] == Array("alice".utf8))
    #expect(known.outer[0xE0] == leaf.spkiSHA256)
    #expect(known.outer[0xE1] == (words.isEmpty ? nil : leaf.der))
    #expect(unknown.ssl.first == 1 && unknown.inner[0x22] == nil)
    #expect(unknown.outer[0xE0] == nil && unknown.outer[0xE1] == nil)
  }

  /// A header of version 2.
  private struct Header {
    var addresses: [UInt8] = []
    var outer: [UInt8: [UInt8]] = [:]
    /// PP2_TYPE_SSL: the client's flags and the result, and what follows.
    var ssl: [UInt8] = []
    var inner: [UInt8: [UInt8]] = [:]
    var rest: [UInt8] = []

    init(_ bytes: [UInt8]) throws {
      guard bytes.starts(with: [13, 10, 13, 10, 0, 13, 10, 0x51, 0x55, 0x49, 0x54, 10, 0x21, 0x11]) else {
        throw WireError.malformed("no header of version 2")
      }
      let length = Int(bytes[14]) << 8 | Int(bytes[15])
      let content = bytes.dropFirst(16).prefix(length)
      rest = Array(bytes.dropFirst(16 + length))
      addresses = Array(content.prefix(12))
      outer = Self.list(content.dropFirst(12))
      ssl = Array((outer[0x20] ?? []).prefix(5))
      inner = Self.list((outer[0x20] ?? []).dropFirst(5))
    }

    private static func list(_ bytes: ArraySlice<UInt8>) -> [UInt8: [UInt8]] {
      var (all, rest): ([UInt8: [UInt8]], _) = ([:], bytes)
      while rest.count >= 3 {
        let head = Array(rest.prefix(3))
        let length = Int(head[1]) << 8 | Int(head[2])
        all[head[0]] = Array(rest.dropFirst(3).prefix(length))
        rest = rest.dropFirst(3 + length)
      }
      return all
    }
  }

  // MARK: Unix sockets

  @Test func `unix sockets serve on both sides`() async throws {
    let scene = try Scene.ofTest()
    let paths = ["front.sock", "told.sock", "back.sock"].map { scene.path($0) }
    let upstream = try ScriptedUpstream.mirror(scene, unixPath: paths[2])
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene,
      streamConfiguration(
        """
        server { listen unix:\(paths[0]); allow unix:; deny all; proxy_pass unix:\(paths[2]); }
        server { listen unix:\(paths[1]); proxy_protocol on; proxy_pass unix:\(paths[2]); }
        server { listen 127.0.0.1:\(port); deny unix:; allow all; proxy_pass unix:\(paths[2]); }
        """))
    let bytes = Pattern.bytes(300_000)
    let came = try await offPool {
      let wire = try Wire.dial(unixPath: paths[0])
      try wire.write(bytes)
      return try wire.read(exactly: bytes.count)
    }
    #expect(Pattern.equal(came, bytes))
    #expect(try await scene.talk(port) { try $0.echoes() })
    let told = try await offPool {
      let wire = try Wire.dial(unixPath: paths[1])
      try wire.write("hello")
      return try wire.read(exactly: 20)
    }
    // Such a client has no address.
    #expect(String(decoding: told, as: UTF8.self) == "PROXY UNKNOWN\r\nhello")
    #expect(upstream.connections == 3)
    daemon.signal(SIGQUIT)
    #expect(try await daemon.process.ended() == .exited(0))
    #expect(access(paths[0], F_OK) != 0)
  }

  // MARK: Addresses

  @Test func `allow and deny end a session before its first byte`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.mirror(scene)
    let (open, shut, inherited) = try (scene.port(), scene.port(), scene.port())
    let daemon = try await Sallyport.start(
      scene,
      streamConfiguration(
        """
        deny 127.0.0.1;
        server { listen 127.0.0.1:\(open); allow 127.0.0.1; deny all; proxy_pass 127.0.0.1:\(upstream.port); }
        server { listen 127.0.0.1:\(shut); deny 127.0.0.0/8; allow all; proxy_pass 127.0.0.1:\(upstream.port); }
        server { listen 127.0.0.1:\(inherited); proxy_pass 127.0.0.1:\(upstream.port); }
        """))
    #expect(try await scene.talk(open) { try $0.echoes() })
    for port in [shut, inherited] {
      #expect(try await scene.talk(port) { try $0.readToEnd() }.isEmpty)
      try await until("the line of port \(port)") { StreamLine.all(scene, port).map(\.status) == ["403"] }
    }
    try await daemon.logged("[error]", "access forbidden by rule, client: 127.0.0.1")
    #expect(upstream.connections == 1)
  }

  /// The rules of the listener's default server have let the client in before a name is known.
  @Test(arguments: [true, false])
  func `the rules of the server block that the name selects hold besides those of the listener's default`(
    endsHere: Bool
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let behind = try await OpenSSLServer.start(scene, cast.server, "-rev")
    let port = try scene.port()
    let content = endsHere ? Self.answer : "proxy_pass 127.0.0.1:\(behind.port);"
    let kind = endsHere ? "ssl" : ""
    _ = try await Sallyport.start(
      scene,
      streamConfiguration(
        """
        \(endsHere ? Cast.tls : "ssl_preread on;")
        limit_conn_zone $binary_remote_addr zone=z:1m;
        server { listen 127.0.0.1:\(port) \(kind); server_name a.test; allow all; \(content) }
        server { listen 127.0.0.1:\(port) \(kind); server_name b.test; deny 127.0.0.1; allow all; \(content) }
        server { listen 127.0.0.1:\(port) \(kind); server_name c.test; allow 127.0.0.1; deny all; \(content) }
        """))
    func ask(_ name: String) async throws -> String {
      try await scene.tlsClient(
        port,
        endsHere ? TLSSteps("name=\(name)", "tls", "rest") : TLSSteps("name=\(name)", "tls", "send=abc\\n", "read=4"))
    }
    let served = endsHere ? "127.0.0.1|127.0.0.1||SUCCESS|alice|admitted<end>" : "cba\n"
    #expect(try await ask("a.test") == served)
    #expect(try await ask("c.test") == served)
    #expect(try await ask("localhost") == served)
    let refused = try await ask("b.test")
    #expect(!refused.contains("SUCCESS") && !refused.contains("cba"), "\(refused)")
    try await until("the lines of the sessions") {
      StreamLine.all(scene, port).map(\.status).sorted() == ["200", "200", "200", "403"]
    }
  }

  @Test func `the rules of the listener's default hold for a client of another server block`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let port = try scene.port()
    _ = try await Sallyport.start(
      scene,
      streamConfiguration(
        """
        \(Cast.tls)
        server { listen 127.0.0.1:\(port) ssl default_server; server_name a.test; deny all; \(Self.answer) }
        server { listen 127.0.0.1:\(port) ssl; server_name b.test; allow all; \(Self.answer) }
        """))
    for name in ["a.test", "b.test", "localhost"] {
      let came = try await scene.tlsClient(port, TLSSteps("name=\(name)", "tls", "rest"))
      #expect(!came.contains("SUCCESS"), "\(name): \(came)")
    }
  }

  // MARK: Certificates

  /// A front that says who the client is.
  private static func judge(_ scene: Scene, _ rules: String, verify: String = "on") async throws -> StreamFront {
    // An end before the client's bytes are read would be a reset.
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.readSome()
      try wire.write("served")
    }
    return try await StreamFront(
      scene, to: upstream, listen: "ssl", server: "\(Cast.tls(verify: verify)) \(rules)")
  }

  private static func ask(_ front: StreamFront, as name: String) async throws -> String {
    try await front.scene.tlsClient(front.port, TLSSteps("as=\(name)", "tls", "send=hello", "rest"))
  }

  private static func cast(_ scene: Scene) throws {
    let cast = try Cast(scene)
    _ = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    _ = try scene.identity("old", cast.authority.client(.expired))
    _ = try scene.identity("stranger", TestAuthority("Other").client(commonName: "alice"))
  }

  @Test func `only clients that are verified get in`() async throws {
    let scene = try Scene.ofTest()
    try Self.cast(scene)
    let front = try await Self.judge(scene, "")
    #expect(try await Self.ask(front, as: "alice") == "served<end>")
    for other in ["none", "old", "stranger"] {
      let came = try await Self.ask(front, as: other)
      #expect(came.contains("ALERT") && !came.contains("served"), "\(other): \(came)")
    }
    try await until("the lines of the sessions") {
      StreamLine.all(scene, front.port).map(\.status).sorted() == ["200", "500", "500", "500"]
    }
    try await front.endsWithoutSessions()
  }

  @Test(arguments: ["ssl_client_allow cn=alice;", "ssl_client_deny cn=bob;", "ssl_client_allow dns=alice.*;"])
  func `ssl_client_allow and ssl_client_deny decide who gets in`(rules: String) async throws {
    let scene = try Scene.ofTest()
    try Self.cast(scene)
    let front = try await Self.judge(scene, rules)
    #expect(try await Self.ask(front, as: "alice") == "served<end>")
    let refused = try await Self.ask(front, as: "bob")
    #expect(!refused.contains("served"), "\(refused)")
    // Each worker writes its own lines, so that they come in any order.
    try await until("the lines of the sessions") {
      StreamLine.all(front.scene, front.port).map(\.status).sorted() == ["200", "403"]
    }
    try await front.daemon.logged("access forbidden by rule", "CN=bob")
  }

  /// The server block of the name has rules of its own.
  @Test func `the rules on certificates are those of the server block that the name selects`() async throws {
    let scene = try Scene.ofTest()
    try Self.cast(scene)
    let port = try scene.port()
    _ = try await Sallyport.start(
      scene,
      streamConfiguration(
        """
        \(Cast.tls)
        server { listen 127.0.0.1:\(port) ssl; server_name a.test; ssl_client_allow cn=alice; \(Self.answer) }
        server { listen 127.0.0.1:\(port) ssl; server_name b.test; ssl_client_allow cn=bob; \(Self.answer) }
        """))
    for (name, client, isServed) in [
      ("a.test", "alice", true), ("a.test", "bob", false), ("b.test", "alice", false), ("b.test", "bob", true),
      ("B.TEST", "bob", true), ("b.test.", "alice", false), ("localhost", "bob", false),
    ] {
      let came = try await scene.tlsClient(port, TLSSteps("name=\(name)", "as=\(client)", "tls", "rest"))
      #expect(came.contains("|SUCCESS|\(client)|admitted<end>") == isServed, "\(name) \(client): \(came)")
    }
  }

  /// nginx, autumn 2026: in stream, the block that SNI chose was not the one whose demand for certificates counted.
  @Test func `the demand for a certificate is that of the server block that the name selects`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(
      scene, serverNames: ["open.test", "strict.test", "a.strict.test", "maybe.test", "nobody.test", "localhost"])
    _ = try scene.identity("stranger", TestAuthority("Other").client(commonName: "alice"))
    let port = try scene.port()
    func server(_ name: String, _ verify: String) -> String {
      "server { listen 127.0.0.1:\(port) ssl; server_name \(name); \(Cast.tls(verify: verify)) return \"served \(name)\"; }"
    }
    _ = try await Sallyport.start(
      scene,
      streamConfiguration(
        server("open.test", "off") + server("strict.test", "on") + server("*.strict.test", "on")
          + server("maybe.test", "optional")))
    for (name, client, isIn) in [
      ("open.test", "none", true), ("strict.test", "none", false), ("strict.test", "stranger", false),
      ("strict.test", "alice", true), ("STRICT.test", "none", false), ("a.strict.test", "none", false),
      ("A.Strict.Test", "stranger", false), ("a.strict.test", "alice", true), ("maybe.test", "none", true),
      ("maybe.test", "stranger", false), ("nobody.test", "none", true),
    ] {
      let came = try await scene.tlsClient(port, TLSSteps("name=\(name)", "as=\(client)", "tls", "rest"))
      #expect(came.contains("served ") == isIn, "\(name) \(client): \(came)")
    }
  }

  /// Each line of the access log has nginx's status of a refused certificate, and what the responder said.
  @Test func `only whom the responder of ssl_ocsp calls good gets in`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    let alice = cast.alice.certified.certificate, other = try TestAuthority("Other")
    let (good, forged) = (
      try await OCSPResponder(scene, cast.authority.root, [(alice, .good), (bob.certified.certificate, .revoked)]),
      try await OCSPResponder(
        scene, cast.authority.root, [(alice, .good)], signer: other.root, name: "forged")
    )
    let ports = try (0..<3).map { _ in try scene.port() }
    let nobody = try scene.port()
    let responders = [good.url, forged.url, "http://127.0.0.1:\(nobody)/"]
    let servers = zip(ports, responders).map { port, url in
      "server { listen 127.0.0.1:\(port) ssl; \(Cast.tls) ssl_ocsp leaf; ssl_ocsp_responder \(url); return served; }\n"
    }
    _ = try await Sallyport.start(scene, streamConfiguration(servers.joined(), workers: 1))
    #expect(try await scene.tlsClient(ports[0], TLSSteps("tls", "rest")) == "served<end>")
    #expect(try await !scene.tlsClient(ports[0], TLSSteps("as=bob", "tls", "rest")).contains("served"))
    for port in ports.dropFirst() {
      #expect(try await !scene.tlsClient(port, TLSSteps("tls", "rest")).contains("served"))
    }
    func lines(_ port: UInt16) -> [String] {
      StreamLine.all(scene, port).map { "\($0.status) \($0["ssl_client_verify"])" }
    }
    try await until("the lines of the sessions") {
      ports.allSatisfy { !lines($0).isEmpty } && lines(ports[0]).count == 2
    }
    #expect(lines(ports[0]) == ["200 SUCCESS", "500 FAILED:certificate revoked"])
    for port in ports.dropFirst() {
      #expect(
        lines(port).first?.hasPrefix("500 FAILED:certificate status request failed") == true, "\(lines(port))")
    }
    good.stop()
    forged.stop()
  }

  @Test func `report only lets everybody in, and says who would be refused`() async throws {
    let scene = try Scene.ofTest()
    try Self.cast(scene)
    let front = try await StreamFront(
      scene, listen: "ssl",
      server: "\(Cast.tls) ssl_verify_report_only on; ssl_client_allow cn=alice; \(Self.answer)")
    func ask(_ name: String) async throws -> String {
      try await scene.tlsClient(front.port, TLSSteps("as=\(name)", "tls", "rest"))
    }
    #expect(try await ask("alice") == "127.0.0.1|127.0.0.1||SUCCESS|alice|admitted<end>")
    #expect(try await ask("none") == "127.0.0.1|127.0.0.1||NONE||refused:client sent no required SSL certificate<end>")
    let bob = try await ask("bob")
    #expect(bob.hasPrefix("127.0.0.1|127.0.0.1||SUCCESS|bob|refused:access forbidden by rule"), "\(bob)")
    let stranger = try await ask("stranger")
    // Nothing is told of a certificate that anybody can make.
    #expect(stranger.hasPrefix("127.0.0.1|127.0.0.1||FAILED:") && stranger.contains("||refused:"), "\(stranger)")
    try await front.daemon.logged("[notice]", "report only: access forbidden by rule", "CN=bob")
  }
}
