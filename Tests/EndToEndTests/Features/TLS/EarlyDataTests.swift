import Crypto
import Glibc
import TestSupport
import Testing

@Suite(.staged) struct `Early data` {
  /// Sallyport in front of an echo, and a relay in front of it that keeps back what the client says after its first
  /// flight.
  struct Setting {
    let scene: Scene
    let cast: Cast
    let port: UInt16
    let upstream: ScriptedUpstream
    let relay: FirstFlightRelay
    let daemon: Sallyport

    init(_ server: String = "") async throws {
      scene = try Scene.ofTest()
      cast = try Cast(scene)
      try Self.list(scene, cast, revoking: [], number: 1)
      port = try scene.port()
      upstream = try ScriptedUpstream.echo(scene)
      relay = try FirstFlightRelay(scene, to: port)
      daemon = try await Sallyport.serve(
        scene,
        """
        log_format early '$request|$ssl_early_data|$status|$ssl_client_verify'; access_log early.log early;
        server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) ssl_early_data on; \(server)
          location / { proxy_pass http://127.0.0.1:\(upstream.port); proxy_set_header X-Who $ssl_client_s_dn; }
          location /own/ { proxy_pass http://127.0.0.1:\(upstream.port); proxy_set_header Early-Data $ssl_early_data; }
        }
        """)
    }

    func client(_ port: UInt16, _ request: String, _ arguments: [String]) async throws -> ToolResult {
      try await scene.run(
        "openssl",
        ["s_client", "-connect", "127.0.0.1:\(port)", "-servername", "localhost", "-ign_eof", "-tls1_3"]
          + cast.alice.openssl + arguments, input: Array(request.utf8))
    }

    static func list(_ scene: Scene, _ cast: Cast, revoking: [IdentityFiles], number: Int) throws {
      var builder = RevocationListBuilder(revoking: revoking.map(\.certified.certificate), number: number)
      builder.nextUpdate = Int64(time(nil)) + 86_400
      let path = try scene.write("crl.new", text: builder.pem(signedBy: cast.authority.root))
      rename(path, scene.path("crl.pem"))
    }

    /// A session of alice's in the file `session.pem`.
    func makeSession() async throws {
      let first = try await client(
        port, "GET /first HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        ["-sess_out", scene.path("session.pem")])
      #expect(first.text.contains("HTTP/1.1 200"))
    }

    /// Sends this as early data through the relay.
    func sendEarly(_ request: String) async throws -> ToolResult {
      let file = try scene.write("early.txt", text: request)
      return try await client(relay.port, "", ["-sess_in", scene.path("session.pem"), "-early_data", file])
    }
  }

  @Test func `a safe request is answered before the handshake is over, and marked`() async throws {
    let setting = try await Setting()
    try await setting.makeSession()
    async let answer = setting.sendEarly("GET /head HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    try await until("the answer to be logged") {
      setting.scene.text("early.log").contains("GET /head HTTP/1.1|1|200|SUCCESS")
    }
    setting.relay.release()
    let text = try await answer.text
    #expect(text.contains("Early data was accepted"))
    #expect(text.contains("Early-Data: 1"))
    #expect(text.contains("X-Who: ") && text.contains("CN=alice"))
  }

  @Test func `who says the field himself is not told twice`() async throws {
    let setting = try await Setting()
    try await setting.makeSession()
    async let answer = setting.sendEarly("GET /own/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    try await until("the request to come") { setting.upstream.receivedText.contains("GET /own/ ") }
    setting.relay.release()
    _ = try await answer
    #expect(setting.upstream.receivedText.split(whereSeparator: \.isNewline).count { $0 == "Early-Data: 1" } == 1)
  }

  @Test(arguments: [
    "POST /unsafe HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi",
    "DELETE /unsafe HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    "GET /unsafe HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi",
  ]) func `what is not safe waits for the end of the handshake`(request: String) async throws {
    let setting = try await Setting()
    try await setting.makeSession()
    async let answer = setting.sendEarly(request)
    try await until("the server to answer the hello") { setting.relay.hasAnswer }
    #expect(!setting.upstream.receivedText.contains("/unsafe"))
    setting.relay.release()
    let text = try await answer.text
    #expect(text.contains("HTTP/1.1 200"))
    #expect(setting.upstream.receivedText.contains("/unsafe"))
    #expect(!setting.upstream.receivedText.contains("Early-Data"))
  }

  @Test func `a request that waits for the end of the handshake is judged by a list that comes meanwhile`() async throws
  {
    let setting = try await Setting("ssl_crl crl.pem;")
    try await setting.makeSession()
    async let answer = setting.sendEarly("DELETE /unsafe HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    try await until("the server to answer the hello") { setting.relay.hasAnswer }
    try Setting.list(setting.scene, setting.cast, revoking: [setting.cast.alice], number: 2)
    setting.daemon.signal(SIGHUP)
    try await setting.daemon.logged("reconfigured: generation 2")
    setting.relay.release()
    let text = try await answer.text
    #expect(text.contains("Early data was accepted") && !text.contains("HTTP/1.1 200"))
    #expect(!setting.upstream.receivedText.contains("/unsafe"))
  }

  @Test func `a first flight that somebody repeats reaches nobody`() async throws {
    let setting = try await Setting()
    try await setting.makeSession()
    async let answer = setting.sendEarly("GET /once HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    try await until("the request to come") { setting.upstream.receivedText.contains("GET /once ") }
    let flight = setting.relay.flight
    let repeated = try await setting.scene.talk(setting.port) { wire in
      try wire.write(flight)
      return try wire.readSome()
    }
    #expect(repeated.first == 0x16)
    setting.relay.release()
    _ = try await answer
    _ = try await setting.client(
      setting.port, "GET /after HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", [])
    let targets = setting.upstream.receivedText.split(whereSeparator: \.isNewline).filter { $0.hasPrefix("GET ") }
    #expect(targets.map { $0.split(separator: " ")[1] } == ["/first", "/once", "/after"])
  }

  @Test func `a sealed ticket, which can be used twice, brings no early data`() async throws {
    let scene = try Scene.ofTest()
    try scene.write("ticket.key", (0..<80).map { _ in UInt8.random(in: 0...255) })
    let setting = try await Setting("ssl_session_ticket_key ticket.key;")
    try await setting.makeSession()
    setting.relay.release()
    let file = try setting.scene.write("early.txt", text: "GET /early HTTP/1.1\r\nHost: localhost\r\n\r\n")
    let answer = try await setting.client(
      setting.port, "GET /late HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
      ["-sess_in", setting.scene.path("session.pem"), "-early_data", file])
    #expect(answer.text.contains("HTTP/1.1 200"))
    #expect(!answer.text.contains("Early data was accepted"))
    #expect(!setting.upstream.receivedText.contains("GET /early"))
  }
}
