import Crypto
import Foundation
import Glibc
import TestSupport
import Testing

/// Sessions of `stream` last for days. None may go on for a client that a new session would be refused, and every other one
/// goes on over reloads and a new binary.
@Suite(.staged) struct `Sessions of stream over a reload` {
  enum Means: CaseIterable, Sendable { case list, rule }

  /// How a client comes to its TLS.
  enum Kind: CaseIterable, Sendable {
    case direct, postgres, smtp
    var lines: String {
      switch self {
      case .direct: ""
      case .postgres: "starttls postgres;"
      case .smtp: "starttls smtp;"
      }
    }
    /// For openssl s_client.
    var words: [String] {
      switch self {
      case .direct: []
      case .postgres: ["-starttls", "postgres"]
      case .smtp: ["-starttls", "smtp"]
      }
    }
  }

  /// A listener for each kind, and one without TLS.
  private struct Front: Sendable {
    let scene: Scene
    let upstream: ScriptedUpstream
    let ports: [Kind: UInt16]
    let plain: UInt16

    init(_ scene: Scene) throws {
      self.scene = scene
      // It greets, as a server of SMTP does: the client of that listener has had a greeting already.
      upstream = try ScriptedUpstream(scene) { wire, _ in
        try wire.write("220 ready\r\n")
        try wire.mirror()
      }
      ports = try Dictionary(uniqueKeysWithValues: Kind.allCases.map { ($0, try scene.port()) })
      plain = try scene.port()
    }

    func text(_ tls: String, main: String = "", turn: Int = 0) -> String {
      let pass = "proxy_pass 127.0.0.1:\(upstream.port);"
      let servers = ports.map { kind, port in
        "server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) \(tls) \(kind.lines) \(pass) }"
      }
      return streamConfiguration(
        "# \(turn)\n\(servers.sorted().joined(separator: "\n"))\nserver { listen 127.0.0.1:\(plain); \(pass) }",
        main: main)
    }

    func start(_ tls: String = "", main: String = "", environment: [String: String] = [:]) async throws -> Sallyport {
      try await Sallyport.start(scene, text(tls, main: main), environment: environment)
    }

    func reload(_ daemon: Sallyport, _ tls: String = "", main: String = "", generation: Int) async throws {
      try daemon.rewrite(text(tls, main: main, turn: generation))
      daemon.signal(SIGHUP)
      try await daemon.logged("reconfigured: generation \(generation)")
    }

    /// A session in progress.
    func session(_ kind: Kind, _ name: String) throws -> Wire {
      let who = ["-cert", scene.path("\(name).pem"), "-key", scene.path("\(name).key")]
      let wire = try OpenSSLClient(scene, port: ports[kind] ?? 0, kind.words + who).wire
      if kind != .smtp { _ = try wire.line() }
      guard try wire.echoes() else { throw WireError.silent }
      return wire
    }

    func sessions(_ name: String) async throws -> [Wire] {
      try await offPool { try Kind.allCases.map { try session($0, name) } }
    }

    func plainSession() async throws -> Wire {
      try await offPool {
        let wire = try Wire.dial(port: plain)
        _ = try wire.line()
        guard try wire.echoes() else { throw WireError.silent }
        return wire
      }
    }
  }

  private static func cast(_ scene: Scene) throws -> (cast: Cast, bob: IdentityFiles) {
    let cast = try Cast(scene)
    return (cast, try scene.identity("bob", cast.authority.client(commonName: "bob")))
  }

  private static func list(_ scene: Scene, _ cast: Cast, revoking: [IdentityFiles], number: Int) throws {
    var builder = RevocationListBuilder(revoking: revoking.map(\.certified.certificate), number: number)
    builder.nextUpdate = Int64(time(nil)) + 86_400
    let path = try scene.write("crl.new", text: builder.pem(signedBy: cast.authority.root))
    rename(path, scene.path("crl.pem"))
  }

  private static func areCut(_ wires: [Wire]) async throws -> Bool {
    try await offPool {
      for wire in wires {
        do { _ = try wire.readToEnd() } catch WireError.silent { return false }
      }
      return true
    }
  }

  private static func goOn(_ wires: [Wire]) async throws -> Bool {
    try await offPool { try wires.allSatisfy { try $0.echoes("still here") } }
  }

  // MARK: Who may not go on

  @Test(arguments: [0, 1, 2], Means.allCases)
  func `a revoked client loses its sessions of every generation, and others keep theirs`(
    reloads: Int, means: Means
  ) async throws {
    let scene = try Scene.ofTest(), (cast, bob) = try Self.cast(scene), front = try Front(scene)
    try Self.list(scene, cast, revoking: [], number: 1)
    let harmless = "ssl_crl crl.pem; ssl_client_deny cn=eve;"
    let daemon = try await front.start(harmless)
    var kept: [Wire] = [], lost: [Wire] = []
    for turn in 0...reloads {
      if turn > 0 { try await front.reload(daemon, harmless, generation: turn + 1) }
      kept += try await front.sessions("alice") + [front.plainSession()]
      lost += try await front.sessions("bob")
    }
    #expect(try await Self.goOn(kept + lost))
    switch means {
    case .list:
      try Self.list(scene, cast, revoking: [bob], number: 2)
      daemon.signal(SIGHUP)
    case .rule:
      try await front.reload(daemon, "ssl_crl crl.pem; ssl_client_deny cn=bob;", generation: reloads + 2)
    }
    #expect(try await Self.areCut(lost))
    #expect(try await Self.goOn(kept))
    try await daemon.logged(
      "the connection was cut after a reload", means == .list ? "certificate revoked" : "ssl_client_deny cn=bob",
      "CN=bob")
    let refused = try await scene.tlsClient(front.ports[.direct] ?? 0, TLSSteps("as=bob", "tls", "rest"))
    #expect(!refused.contains("220"), "\(refused)")
    kept.forEach { $0.close() }
  }

  @Test(
    .disabled(if: Sanitizer.isUsed, "a sanitizer does not run beside a preloaded library"))
  func `a client whose certificate has ended loses its sessions of every generation, without a reload`() async throws {
    let scene = try Scene.ofTest()
    try ClockJump.identities(scene)
    let front = try Front(scene)
    let daemon = try await Sallyport.start(
      scene, front.text(""), environment: try await ClockJump.environment(scene))
    var kept = try await front.sessions("alice")
    var lost = try await front.sessions("bob")
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: generation 2")
    kept += try await front.sessions("alice")
    lost += try await front.sessions("bob")
    // Bob's certificate ends in a day.
    try scene.write("clock", text: "+2d\n")
    #expect(try await Self.areCut(lost))
    #expect(try await Self.goOn(kept))
    try await daemon.logged("the connection was cut: ", "certificate has expired", "CN=bob")
  }

  @Test func `sessions of a listener that is gone go on, with TLS and without`() async throws {
    let scene = try Scene.ofTest()
    _ = try Self.cast(scene)
    let front = try Front(scene)
    let daemon = try await front.start()
    let kept = try await front.sessions("alice") + [front.plainSession()]
    let other = try scene.port()
    for generation in 2...3 {
      try daemon.rewrite(
        streamConfiguration(
          "# \(generation)\nserver { listen 127.0.0.1:\(other); proxy_pass 127.0.0.1:\(front.upstream.port); }"))
      daemon.signal(SIGHUP)
      try await daemon.logged("reconfigured: generation \(generation)")
      #expect(try await Self.goOn(kept))
    }
    #expect(!daemon.errorLog.contains("was cut"))
    kept.forEach { $0.close() }
  }

  /// The handshake was begun under the configuration that let bob in.
  @Test(arguments: [Kind.direct, .postgres])
  func `a client whose handshake a reload has overtaken is judged by the new configuration`(kind: Kind) async throws {
    let scene = try Scene.ofTest()
    _ = try Self.cast(scene)
    let front = try Front(scene), port = front.ports[kind] ?? 0
    let daemon = try await front.start()
    let go = Flag(), arrived = Flag()
    scene.atEnd { go.raise() }
    // The client's last flight waits here.
    let relay = try ScriptedUpstream(scene) { client, _ in
      let server = try Wire.dial(port: port)
      defer { server.close() }
      if kind == .postgres {
        try server.write(try client.read(exactly: 8))
        try client.write(try server.read(exactly: 1))
      }
      let header = try client.read(exactly: 5)
      try server.write(header + client.read(exactly: Int(header[3]) << 8 | Int(header[4])))
      try client.write(try server.readSome())
      let some = try client.readSome()
      arrived.raise()
      go.wait()
      try server.write(some)
      try client.pass(to: server)
    }
    async let came = scene.tlsClient(
      relay.port,
      kind == .postgres
        ? TLSSteps("as=bob", "clear=\\x00\\x00\\x00\\x08\\x04\\xd2\\x16\\x2f", "hear=1", "tls", "send=hello", "rest")
        : TLSSteps("as=bob", "tls", "send=hello", "rest"))
    try await until("the client's last flight") { arrived.isRaised }
    try await front.reload(daemon, "ssl_client_deny cn=bob;", generation: 2)
    go.raise()
    let text = try await came
    #expect(!text.contains("220") && !text.contains("hello"), "\(text)")
    let received = front.upstream.received.filter { !$0.isEmpty }
    #expect(received.isEmpty)
  }

  // MARK: Who goes on

  @Test func `harmless reloads keep every session, and new sessions have the new configuration`() async throws {
    let scene = try Scene.ofTest()
    _ = try Self.cast(scene)
    let front = try Front(scene)
    let daemon = try await front.start()
    var kept = try await front.sessions("alice") + [front.plainSession()]
    for generation in 2...4 {
      try await front.reload(daemon, "proxy_timeout \(generation)h;", generation: generation)
      #expect(try await Self.goOn(kept))
      kept += try await front.sessions("alice") + [front.plainSession()]
    }
    let other = try ScriptedUpstream.named(scene, "other")
    try daemon.rewrite(
      front.text("").replacing("127.0.0.1:\(front.upstream.port)", with: "127.0.0.1:\(other.port)"))
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: generation 5")
    #expect(try await scene.talk(front.plain) { try $0.line() } == "other")
    #expect(try await Self.goOn(kept))
    kept.forEach { $0.close() }
  }

  @Test func `worker_shutdown_timeout ends the sessions of an earlier generation, and not the new ones`() async throws {
    let scene = try Scene.ofTest()
    _ = try Self.cast(scene)
    let front = try Front(scene)
    let daemon = try await front.start(main: "worker_shutdown_timeout 200ms;")
    let lost = try await front.sessions("alice") + [front.plainSession()]
    try await front.reload(daemon, main: "worker_shutdown_timeout 200ms;", generation: 2)
    let kept = try await front.plainSession()
    #expect(try await Self.areCut(lost))
    #expect(try await Self.goOn([kept]))
  }

  @Test func `QUIT waits for sessions to end`() async throws {
    let scene = try Scene.ofTest()
    _ = try Self.cast(scene)
    let front = try Front(scene)
    let daemon = try await front.start(main: "worker_shutdown_timeout 1h;")
    let sessions = [try await front.plainSession(), try await offPool { try front.session(.direct, "alice") }]
    daemon.signal(SIGQUIT)
    try await until("the listener to close") { (try? Wire.dial(port: front.plain)) == nil }
    #expect(try await Self.goOn(sessions))
    #expect(daemon.process.ending == nil)
    sessions[0].close()
    #expect(try await Self.goOn([sessions[1]]))
    // s_client ends with its connection only: the upstream ends that.
    for wire in front.upstream.wires { wire.interrupt() }
    #expect(try await daemon.process.ended() == .exited(0))
  }

  @Test func `QUIT waits for worker_shutdown_timeout and no longer`() async throws {
    let scene = try Scene.ofTest()
    _ = try Self.cast(scene)
    let front = try Front(scene)
    let daemon = try await front.start(main: "worker_shutdown_timeout 200ms;")
    let sessions = try await front.sessions("alice") + [front.plainSession()]
    daemon.signal(SIGQUIT)
    #expect(try await Self.areCut(sessions))
    #expect(try await daemon.process.ended() == .exited(0))
  }

  @Test func `USR2 loses no session, and new ones are those of the new process`() async throws {
    let scene = try Scene.ofTest()
    _ = try Self.cast(scene)
    let front = try Front(scene)
    let daemon = try await front.start()
    var old = try await front.sessions("alice")
    for _ in 0..<10 { old.append(try await front.plainSession()) }
    let other = try ScriptedUpstream.named(scene, "other")
    try daemon.rewrite(
      front.text("").replacing("127.0.0.1:\(front.upstream.port)", with: "127.0.0.1:\(other.port)"))
    daemon.signal(SIGUSR2)
    let former = daemon.process.identifier
    let fresh = try await waiting(for: "the pid file of the new process") {
      pid_t(scene.text("sallyport.pid").trimmingCharacters(in: .whitespacesAndNewlines)).flatMap {
        $0 == former ? nil : $0
      }
    }
    scene.atEnd { kill(fresh, SIGKILL) }
    try await daemon.logged("process \(fresh) of the new binary serves: this one drains")
    #expect(try await Self.goOn(old))
    #expect(try await scene.talk(front.plain) { try $0.line() } == "other")
    #expect(try await Self.goOn(old))
    #expect(daemon.process.ending == nil)
    for wire in front.upstream.wires { wire.interrupt() }
    #expect(try await Self.areCut(old))
    #expect(try await daemon.process.ended() == .exited(0))
    #expect(try await scene.talk(front.plain) { try $0.line() } == "other")
    kill(fresh, SIGTERM)
    try await until("the new process to end") { kill(fresh, 0) != 0 }
  }
}
