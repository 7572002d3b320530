import Crypto
import Foundation
import Glibc
import TestSupport
import Testing

/// Where sessions of `stream` go, and which upstream gets the client's bytes.
@Suite(.staged) struct `Upstreams of stream` {
  // MARK: Groups

  /// The name that the upstream of a new session says.
  private static func name(_ front: StreamFront) async throws -> String { try await front.talk { try $0.line() } }

  @Test func `a session goes to the next server if one can't be reached, and to the backup last`() async throws {
    let scene = try Scene.ofTest()
    let (good, last) = try (ScriptedUpstream.named(scene, "good"), ScriptedUpstream.named(scene, "last"))
    let (closed, gone) = try (scene.port(), scene.port())
    let front = try await StreamFront(
      scene, to: "some",
      stream: """
        upstream some { server 127.0.0.1:\(closed) max_fails=0; server 127.0.0.1:\(good.port);
          server 127.0.0.1:\(last.port) backup; }
        upstream none { server 127.0.0.1:\(closed) max_fails=0; server 127.0.0.1:\(gone) max_fails=0;
          server 127.0.0.1:\(last.port) backup; }
        server { listen unix:\(scene.path("none.sock")); proxy_pass none; }
        """, workers: 1)
    var addresses: [String] = []
    for number in 0..<4 {
      #expect(try await Self.name(front) == "good")
      addresses.append(try await front.line(number)["upstream_addr"])
    }
    #expect(addresses.contains("127.0.0.1:\(closed), 127.0.0.1:\(good.port)"), "\(addresses)")
    let path = scene.path("none.sock")
    #expect(try await offPool { try Wire.dial(unixPath: path).line() } == "last")
  }

  @Test func `proxy_next_upstream off and the limits of tries leave it at that`() async throws {
    let scene = try Scene.ofTest()
    let good = try ScriptedUpstream.named(scene, "good")
    let closed = try (0..<3).map { _ in try scene.port() }
    let (off, tries) = try (scene.port(), scene.port())
    let servers = closed.map { "server 127.0.0.1:\($0) max_fails=0;" }.joined(separator: " ")
    let daemon = try await Sallyport.start(
      scene,
      streamConfiguration(
        """
        upstream some { \(servers) server 127.0.0.1:\(good.port) backup; }
        server { listen 127.0.0.1:\(off); proxy_next_upstream off; proxy_pass some; }
        server { listen 127.0.0.1:\(tries); proxy_next_upstream_tries 2; proxy_pass some; }
        """))
    for (port, count) in [(off, 1), (tries, 2)] {
      #expect(try await scene.talk(port) { try $0.readToEnd() }.isEmpty)
      try await until("the line of port \(port)") {
        let lines = StreamLine.all(scene, port)
        return lines.map(\.status) == ["502"] && lines[0]["upstream_addr"].split(separator: ",").count == count
      }
    }
    try await daemon.logged("[error]", "connect() failed (111: Connection refused)", "while connecting to upstream")
    #expect(good.connections == 0)
  }

  @Test func `with hash, the sessions of one key have one server, and none of another key's`() async throws {
    let scene = try Scene.ofTest()
    let servers = try (0..<4).map { try ScriptedUpstream.named(scene, "\($0)") }
    let list = servers.map { "server 127.0.0.1:\($0.port);" }.joined(separator: " ")
    let front = try await StreamFront(
      scene, to: "some", listen: "proxy_protocol", server: "set_real_ip_from 127.0.0.1;",
      stream: "upstream some { hash $remote_addr consistent; \(list) }")
    func name(_ client: Int) async throws -> String {
      try await front.talk { wire in
        try wire.write("PROXY TCP4 192.0.2.\(client) 198.51.100.7 1 2\r\n")
        return try wire.line()
      }
    }
    var chosen: [String] = []
    for client in 0..<20 { chosen.append(try await name(client)) }
    for client in 0..<20 { #expect(try await name(client) == chosen[client]) }
    #expect(Set(chosen).count > 1)
  }

  @Test func `a variable names the upstream, and one that is none ends the session with 500`() async throws {
    let scene = try Scene.ofTest()
    let (one, two) = try (ScriptedUpstream.named(scene, "one"), ScriptedUpstream.named(scene, "two"))
    let ports = try (0..<4).map { _ in try scene.port() }
    let servers = ports.map { "server { listen 127.0.0.1:\($0); proxy_pass $to; }" }.joined(separator: "\n")
    let daemon = try await Sallyport.start(
      scene,
      streamConfiguration(
        """
        upstream named { server 127.0.0.1:\(two.port); }
        map $server_port $to { \(ports[0]) 127.0.0.1:\(one.port); \(ports[1]) named; \(ports[2]) ""; default 127.0.0.1; }
        \(servers)
        """))
    #expect(try await scene.talk(ports[0]) { try $0.line() } == "one")
    #expect(try await scene.talk(ports[1]) { try $0.line() } == "two")
    for port in ports.dropFirst(2) {
      #expect(try await scene.talk(port) { try $0.readToEnd() }.isEmpty)
      try await until("the line of port \(port)") { StreamLine.all(scene, port).map(\.status) == ["500"] }
    }
    try await daemon.logged("[error]", "in upstream \"127.0.0.1\"")
  }

  // MARK: Trust

  enum Fault: CaseIterable, Sendable {
    case wrongPin, wrongName, untrustedCA, expired, plain
    var words: String {
      switch self {
      case .wrongPin: "pin: "
      case .wrongName: "name: "
      case .untrustedCA: "chain: "
      case .expired: "expired: "
      case .plain: "while SSL handshaking to upstream"
      }
    }
  }

  @Test(arguments: Fault.allCases) func `an upstream that isn't trusted gets no byte of the client`(fault: Fault)
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    var builder = CertificateBuilder(commonName: "up.test", .leaf([.serverAuth]), names: [.dns("up.test")])
    var pinned: CertifiedKey?
    var authority = cast.authority.root
    switch fault {
    case .wrongPin: pinned = try cast.authority.server(names: ["up.test"])
    case .wrongName: builder.alternativeNames = [.dns("elsewhere.test")]
    case .untrustedCA: authority = try TestAuthority("Stranger").root
    case .expired: builder.notAfter = builder.notBefore + 60
    case .plain: break
    }
    let identity = try scene.identity("upstream", builder.signed(by: authority, key: .generate()))
    let secure = try await OpenSSLServer.start(scene, identity)
    let plain = try ScriptedUpstream.mirror(scene)
    let pin = pinned.map { "proxy_ssl_pin \(Pin.spelling(publicKeyDigest: $0.certificate.spkiSHA256));" } ?? ""
    let front = try await StreamFront(
      scene, to: "127.0.0.1:\(fault == .plain ? plain.port : secure.port)",
      server: "proxy_ssl on; proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name up.test; \(pin)")
    for number in 0..<2 {
      let came = try await front.talk { wire in
        try wire.write("s3cr3t")
        return try wire.readToEnd()
      }
      #expect(came.isEmpty)
      #expect(try await front.line(number).status == "502")
    }
    try await front.daemon.logged("[error]", fault.words, "while SSL handshaking to upstream")
    #expect(!secure.log.contains("s3cr3t") && !plain.receivedText.contains("s3cr3t"))
    try await front.endsWithoutSessions()
  }

  @Test func `a session goes to the next server if one isn't trusted`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let stranger = try await OpenSSLServer.start(
      scene, scene.identity("stranger", TestAuthority("Other").server(names: ["up.test"])), name: "stranger", "-rev")
    let known = try await OpenSSLServer.start(
      scene, scene.identity("known", cast.authority.server(names: ["up.test"])), name: "known", "-rev")
    let front = try await StreamFront(
      scene, to: "some",
      server: "proxy_ssl on; proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name up.test;",
      stream: """
        upstream some { server 127.0.0.1:\(stranger.port) max_fails=0; server 127.0.0.1:\(known.port) backup; }
        """)
    let came = try await front.talk { wire in
      try wire.write("s3cr3t\n")
      return try wire.line()
    }
    #expect(came == "t3rc3s")
    #expect(!stranger.log.contains("s3cr3t"))
  }

  @Test func `an upstream gets our certificate, SNI and ALPN`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let identity = try scene.identity("upstream", cast.authority.server(names: ["up.test"]))
    try scene.write("both.pem", text: scene.text("upstream.pem") + scene.text("upstream.key"))
    let (port, sink) = try (scene.port(), ScriptedUpstream.mirror(scene))
    try await HAProxy.start(
      scene, port: port, to: sink.port, mode: "tcp",
      bind: """
        ssl crt \(scene.path("both.pem")) ca-file \(scene.path("ca.pem")) verify required alpn postgresql,other
        """, server: "send-proxy-v2 proxy-v2-options ssl,cert-cn,authority")
    let front = try await StreamFront(
      scene, to: "127.0.0.1:\(port)",
      server: """
        proxy_ssl on; proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name up.test; proxy_ssl_server_name on;
        proxy_ssl_certificate alice.pem; proxy_ssl_certificate_key alice.key; proxy_ssl_alpn postgresql;
        """)
    _ = try await front.talk { wire in
      try wire.write("hello")
      return try wire.readSome()
    }
    #expect(identity.certificate == scene.path("upstream.pem"))
    let told = String(decoding: sink.received.first ?? [], as: UTF8.self)
    #expect(told.contains("alice") && told.contains("up.test") && told.contains("postgresql"), "\(told)")
  }

  /// Both servers take connections at once, and one of them is slow to speak.
  @Test(arguments: ["first_byte", "last_byte", "first_byte inflight"])
  func `least_time takes the server whose sessions come sooner`(time: String) async throws {
    let scene = try Scene.ofTest()
    let slow = try ScriptedUpstream(scene) { wire, _ in
      Thread.sleep(forTimeInterval: 0.4)
      try wire.write("slow\n")
    }
    let fast = try ScriptedUpstream(scene) { wire, _ in try wire.write("fast\n") }
    let front = try await StreamFront(
      scene, to: "group",
      stream: """
        upstream group { least_time \(time); server 127.0.0.1:\(slow.port); server 127.0.0.1:\(fast.port); }
        """, workers: 1)
    var heard: [String] = []
    for _ in 0..<8 { heard.append(try await front.talk { try $0.textToEnd() }) }
    // Each is tried before its time is known.
    #expect(heard.prefix(2).sorted() == ["fast\n", "slow\n"], "\(heard)")
    #expect(heard.dropFirst(2).allSatisfy { $0 == "fast\n" }, "\(heard)")
    #expect(slow.connections == 1 && fast.connections == 7)
  }

  @Test func `ALPN offers several names, and those that variables have`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    _ = try scene.identity("upstream", cast.authority.server(names: ["up.test"]))
    let upstream = try scene.port(), ports = try (0..<4).map { _ in try scene.port() }
    let long = String(repeating: "x", count: 256)
    let offers = ["unknown second", "$wanted first", "$none $none", "first $long"]
    let fronts = zip(ports, offers).map { port, names in
      """
      server { listen 127.0.0.1:\(port); set $wanted third; set $none ""; set $long \(long); proxy_pass 127.0.0.1:\(upstream);
        proxy_ssl on; proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name up.test; proxy_ssl_alpn \(names); }

      """
    }
    let daemon = try await Sallyport.start(
      scene,
      streamConfiguration(
        fronts.joined() + """
          server { listen 127.0.0.1:\(upstream) ssl; ssl_certificate upstream.pem; ssl_certificate_key upstream.key;
            ssl_alpn third first second; return "[$ssl_alpn_protocol]"; }
          """, workers: 1))
    var heard: [String] = []
    for port in ports { heard.append(try await scene.talk(port) { try $0.textToEnd() }) }
    #expect(heard == ["[second]", "[third]", "[]", "[first]"])
    try await daemon.logged("[info]", "a protocol of 256 bytes in \"proxy_ssl_alpn\" isn't offered")
  }

  // MARK: The access log

  @Test func `the access log has a line of each session, with what is known of it`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.read(exactly: 5)
      try wire.write("answer")
    }
    let (port, format) = (
      try scene.port(),
      """
      '$remote_addr|$protocol|$status|$bytes_received|$bytes_sent|$session_time|$connection|$upstream_addr|'
      '$upstream_bytes_sent|$upstream_bytes_received|$upstream_connect_time|$upstream_first_byte_time|'
      '$upstream_session_time|$ssl_protocol|$ssl_server_name|$ssl_client_verify|$ssl_client_s_dn_cn|$mine|$server_port'
      """
    )
    let daemon = try await Sallyport.start(
      scene,
      streamConfiguration(
        """
        log_format all \(format);
        server { listen 127.0.0.1:\(port) ssl; \(Cast.tls) set $mine value; access_log all.log all;
          proxy_pass 127.0.0.1:\(upstream.port); }
        """, workers: 1))
    #expect(try await scene.tlsClient(port, TLSSteps("tls", "send=hello", "rest")) == "answer<end>")
    let line = try await waiting(for: "all.log") { scene.text("all.log").split(separator: "\n").first.map(String.init) }
    let fields = line.split(separator: "|", omittingEmptySubsequences: false).map(String.init)
    try #require(fields.count == 19, "\(line)")
    #expect(Array(fields[..<5]) == ["127.0.0.1", "TCP", "200", "5", "6"], "\(line)")
    #expect(Array(fields[7..<10]) == ["127.0.0.1:\(upstream.port)", "5", "6"], "\(line)")
    #expect(
      Array(fields[13...]) == ["TLSv1.3", "localhost", "SUCCESS", "alice", "value", "\(port)"], "\(line)")
    for time in [fields[5]] + fields[10..<13] { #expect(time.wholeMatch(of: /\d+\.\d{3}/) != nil, "\(line)") }
    #expect(Int(fields[6]) ?? 0 > 0)
    daemon.signal(SIGQUIT)
    #expect(try await daemon.process.ended() == .exited(0))
  }

  @Test func `return sends a text of any length and ends`() async throws {
    let scene = try Scene.ofTest()
    let long = String(repeating: "0123456789", count: 20_000)
    try scene.write("long.conf", text: "return \"\(long)\";")
    let front = try await StreamFront(scene, server: "include long.conf;")
    #expect(try await front.talk { try $0.textToEnd() } == long)
    #expect(try await front.line()["bytes_sent"] == "200000")
    try await front.endsWithoutSessions()
  }
}
