import Crypto
import Foundation
import Glibc
import TestSupport
import Testing

/// `pass`: one port for many protocols.
@Suite(.staged) struct `Connections that pass to another listener` {
  /// One port in front of listeners of http and of stream.
  private struct Stand: Sendable {
    let scene: Scene
    let cast: Cast
    let daemon: Sallyport
    let front: UInt16
    let (web, secure, stream, other): (UInt16, UInt16, UInt16, UInt16)

    /// `front`: the lines of the server at the port in front; WEB, SECURE, STREAM and OTHER are addresses.
    init(_ scene: Scene, listen: String = "", _ lines: String, stream: String = "") async throws {
      self.scene = scene
      cast = try Cast(scene)
      let ports = try (0..<5).map { _ in try scene.port() }
      (front, web, secure, self.stream, other) = (ports[0], ports[1], ports[2], ports[3], ports[4])
      func text(_ lines: String) -> String {
        zip(["WEB", "SECURE", "STREAM", "OTHER"], ports.dropFirst())
          .reduce(lines) { $0.replacing($1.0, with: "127.0.0.1:\($1.1)") }
      }
      daemon = try await Sallyport.start(
        scene,
        streamConfiguration(
          text(
            """
            \(stream)
            server { listen 127.0.0.1:\(front) \(listen); \(lines) }
            server { listen STREAM; return "stream $remote_addr $server_port"; }
            server { listen OTHER ssl; \(Cast.tls) return "inside $ssl_client_s_dn_cn"; }
            """),
          http: text(
            """
            server { listen WEB; location / { return 200 "web $remote_addr $server_port $scheme"; }
              location /large { client_max_body_size 10m; proxy_pass http://127.0.0.1:\(try ScriptedUpstream.echo(scene).port); } }
            server { listen SECURE ssl; http2 on; server_name localhost; \(Cast.tls)
              location / { return 200 "secure $ssl_client_s_dn_cn $server_protocol"; } }
            """), workers: 1))
    }

    func curl(_ words: String...) async throws -> CurlResult { try await scene.curl(words) }
  }

  @Test func `plain connections pass with their first bytes, which the other listener reads`() async throws {
    let scene = try Scene.ofTest()
    let stand = try await Stand(scene, "pass WEB;")
    for _ in 0..<3 {
      let result = try await stand.curl("http://127.0.0.1:\(stand.front)/")
      #expect(result.text == "web 127.0.0.1 \(stand.front) http", "\(result.errors)")
    }
    let body = Pattern.bytes(3_000_000)
    let large = try await scene.curl(["http://127.0.0.1:\(stand.front)/large"], input: body)
    #expect(large.body == body)
    // Two requests on one connection, the second one after the pass.
    let statuses = try await scene.talk(stand.front) { wire in
      try (0..<2).map { _ in
        try wire.write("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        return try wire.response().status
      }
    }
    #expect(statuses == [200, 200])
  }

  @Test func `by its name, a connection of TLS goes to a listener of http or of stream`() async throws {
    let scene = try Scene.ofTest()
    let stand = try await Stand(
      scene, "ssl_preread on; pass $to;",
      stream: """
        map $ssl_preread_server_name $to { localhost SECURE; a.test OTHER; "" STREAM; default WEB; }
        """)
    for version in ["--http1.1", "--http2"] {
      let result = try await scene.curl(
        [version] + stand.cast.to(stand.front) + stand.cast.alice.curl + ["https://localhost/"])
      #expect(result.text == "secure alice HTTP/\(version == "--http2" ? "2.0" : "1.1")", "\(result.errors)")
    }
    #expect(try await scene.tlsClient(stand.front, TLSSteps("name=a.test", "tls", "rest")) == "inside alice<end>")
    let plain = try await scene.talk(stand.front) { wire in
      try wire.write("hello")
      return try wire.textToEnd()
    }
    #expect(plain == "stream 127.0.0.1 \(stand.front)")
  }

  @Test func `a client whom the other listener wouldn't let in is refused by it`() async throws {
    let scene = try Scene.ofTest()
    let stand = try await Stand(scene, "ssl_preread on; pass SECURE;")
    _ = try scene.identity("stranger", TestAuthority("Other").client(commonName: "eve"))
    let stranger = ["--cert", scene.path("stranger.pem"), "--key", scene.path("stranger.key")]
    for who in [[], stranger] {
      let result = try await scene.curl(stand.cast.to(stand.front) + who + ["https://localhost/"])
      #expect(result.status == 400, "\(result.errors)")
    }
  }

  @Test func `TLS that ended here goes on as http`() async throws {
    let scene = try Scene.ofTest()
    let stand = try await Stand(scene, listen: "ssl", "\(Cast.tls) pass WEB;")
    let result = try await scene.curl(
      stand.cast.to(stand.front) + stand.cast.alice.curl + ["--http1.1", "https://localhost/"])
    #expect(result.text == "web 127.0.0.1 \(stand.front) http", "\(result.errors)")
    let refused = try await scene.curl(stand.cast.to(stand.front) + ["--http1.1", "https://localhost/"])
    #expect(refused.status == 0)
    let body = Pattern.bytes(1_000_000)
    let large = try await scene.curl(
      stand.cast.to(stand.front) + stand.cast.alice.curl + ["--http1.1", "https://localhost/large"], input: body)
    #expect(large.body == body)
  }

  @Test func `TLS that ended here goes on to stream`() async throws {
    let scene = try Scene.ofTest()
    let stand = try await Stand(scene, listen: "ssl", "\(Cast.tls) pass STREAM;")
    #expect(
      try await scene.tlsClient(stand.front, TLSSteps("tls", "rest")) == "stream 127.0.0.1 \(stand.front)<end>")
  }

  @Test func `TLS that ended here passes two listeners`() async throws {
    let scene = try Scene.ofTest(), middle = try scene.port()
    let stand = try await Stand(
      scene, listen: "ssl", "\(Cast.tls) pass 127.0.0.1:\(middle);",
      stream: "server { listen 127.0.0.1:\(middle); pass WEB; }")
    let result = try await scene.curl(
      stand.cast.to(stand.front) + stand.cast.alice.curl + ["--http1.1", "https://localhost/"])
    #expect(result.text == "web 127.0.0.1 \(stand.front) http", "\(result.errors)")
  }

  /// The listener that serves the connection asks for no certificate, so nobody else would judge its client again.
  @Test func `a client that is revoked after its connection has passed loses it`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), (front, web) = try (scene.port(), scene.port())
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    func list(_ revoked: [IdentityFiles]) throws {
      let list = RevocationListBuilder(revoking: revoked.map(\.certified.certificate), number: revoked.count + 1)
      rename(try scene.write("crl.new", text: list.pem(signedBy: cast.authority.root)), scene.path("crl.pem"))
    }
    try list([])
    let daemon = try await Sallyport.start(
      scene,
      streamConfiguration(
        "server { listen 127.0.0.1:\(front) ssl; \(Cast.tls) ssl_crl crl.pem; pass 127.0.0.1:\(web); }",
        http: "server { listen 127.0.0.1:\(web); location / { return 200 web; } }", workers: 1))
    @Sendable func ask(_ wire: Wire) throws -> Int {
      try wire.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
      return try wire.response().status
    }
    let (kept, lost) = try await offPool {
      let wires = (
        try OpenSSLClient(scene, port: front, identity: cast.alice).wire,
        try OpenSSLClient(scene, port: front, identity: bob).wire
      )
      #expect(try ask(wires.0) == 200 && ask(wires.1) == 200)
      return wires
    }
    try list([bob])
    daemon.signal(SIGHUP)
    #expect(try await offPool { try lost.readToEnd().isEmpty })
    #expect(try await offPool { try ask(kept) } == 200)
    try await daemon.logged("the connection was closed: client SSL certificate verify error: (23:certificate revoked")
  }

  @Test func `TLS that ended here doesn't begin again`() async throws {
    let scene = try Scene.ofTest()
    let stand = try await Stand(scene, listen: "ssl", "\(Cast.tls) pass SECURE;")
    #expect(try await scene.tlsClient(stand.front, TLSSteps("tls", "rest")) == "<end>")
    try await stand.daemon.logged("[error]", "the connection has TLS already")
  }

  @Test func `an address without a listener ends the connection with 500`() async throws {
    let scene = try Scene.ofTest()
    let stand = try await Stand(scene, "pass 127.0.0.1:1;")
    #expect(try await scene.talk(stand.front) { try $0.readToEnd() }.isEmpty)
    try await stand.daemon.logged("[error]", "no listener has the address \"127.0.0.1:1\" in \"pass\"")
    try await until("the line of the session") { StreamLine.all(scene, stand.front).map(\.status) == ["500"] }
  }

  /// A circle would otherwise never end, or take the process with it.
  @Test(arguments: ["", "ssl"]) func `a listener that passes to itself ends the connection`(listen: String) async throws
  {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let (port, second, good) = try (scene.port(), scene.port(), scene.port())
    let tls = listen.isEmpty ? "" : Cast.tls
    let daemon = try await Sallyport.start(
      scene,
      streamConfiguration(
        """
        map $remote_port $itself { default 127.0.0.1:\(port); }
        server { listen 127.0.0.1:\(port) \(listen); \(tls) pass 127.0.0.1:\(second); }
        server { listen 127.0.0.1:\(second); pass 127.0.0.1:\(second); }
        server { listen 127.0.0.1:\(good); return good; }
        """, workers: 1))
    if listen.isEmpty {
      #expect(try await scene.talk(port) { try $0.readToEnd() }.isEmpty)
    } else {
      #expect(try await scene.tlsClient(port, TLSSteps("tls", "rest")).hasPrefix("<"))
    }
    #expect(try await scene.talk(good) { try $0.textToEnd() } == "good")
    daemon.signal(SIGQUIT)
    #expect(try await daemon.process.ended() == .exited(0))
  }

  /// The address means the same listener, whatever a reload has put in front of it.
  @Test func `a connection that a reload has overtaken goes to the listener of the address`() async throws {
    let scene = try Scene.ofTest()
    let ports = try (0..<4).map { _ in try scene.port() }
    func server(_ port: UInt16, _ name: String) -> String { "server { listen 127.0.0.1:\(port); return \(name); }" }
    let front = "server { listen 127.0.0.1:\(ports[0]); ssl_preread on; pass 127.0.0.1:\(ports[1]); }"
    let daemon = try await Sallyport.start(
      scene, streamConfiguration(front + server(ports[1], "public") + server(ports[2], "other")))
    let wire = try Wire.dial(port: ports[0])
    try wire.write([0x16])
    try await until("the session at its ClientHello") {
      try await scene.talk(ports[1]) { try $0.textToEnd() } == "public"
    }
    try daemon.rewrite(
      streamConfiguration(
        server(ports[3], "secret") + server(ports[2], "secret") + server(ports[1], "public") + front))
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: generation 2")
    let said = try await offPool {
      try wire.write([0x09])
      return try wire.textToEnd()
    }
    #expect(said == "public" || said.isEmpty, "\(said)")
  }
}
