import Crypto
import Glibc
import TestSupport
import Testing

/// One file that can't be loaded keeps its own content, and no other one waits for its repair.
@Suite(.staged) struct `Files that can't be loaded` {
  private func list(_ scene: Scene, _ authority: TestAuthority, revoking: [IdentityFiles], number: Int) throws {
    let revoked = revoking.map(\.certified.certificate)
    let text = try RevocationListBuilder(revoking: revoked, number: number).pem(signedBy: authority.root)
    rename(try scene.write("crl.pem.new", text: text), scene.path("crl.pem"))
  }

  private func http(_ port: UInt16, _ other: UInt16) -> String {
    """
    server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) ssl_crl crl.pem;
      location = /metrics { metrics; } location = /status { status; } location / { return 200 in; } }
    server { listen 127.0.0.1:\(other) ssl; server_name other.test;
      ssl_certificate other.pem; ssl_certificate_key other.key;
      ssl_client_certificate otherca.pem; ssl_verify_client on; return 204; }
    """
  }

  /// Two server blocks with their files, and a client whom the list of the first revokes in a while.
  private struct Stage {
    let scene: Scene, cast: Cast, bob: IdentityFiles, port: UInt16, daemon: Sallyport

    func ask(_ who: IdentityFiles, _ path: String = "/") async throws -> CurlResult {
      try await scene.curl(cast.to(port) + who.curl + ["https://localhost\(path)"])
    }
    func health() async throws -> ToolResult {
      try await scene.sallyport("health", "--config", scene.path("sallyport.conf"))
    }
  }

  private func stage(_ scene: Scene) async throws -> Stage {
    let cast = try Cast(scene)
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    _ = try scene.identity("other", cast.authority.server(names: ["other.test"]))
    try scene.anchors("otherca", cast.authority)
    try list(scene, cast.authority, revoking: [], number: 1)
    let (port, other) = try (scene.port(), scene.port())
    let daemon = try await Sallyport.start(scene, configuration(http(port, other)))
    let stage = Stage(scene: scene, cast: cast, bob: bob, port: port, daemon: daemon)
    #expect(try await stage.ask(bob).status == 200)
    return stage
  }

  @Test(arguments: ["other.key", "otherca.pem"])
  func `one of another server stops no revocation, and is told everywhere until it is mended`(
    file: String
  ) async throws {
    let scene = try Scene.ofTest(), stage = try await stage(scene)
    let good = scene.bytes(file)
    if file == "other.key" {
      _ = try scene.identity("wrong", TestAuthority().server())
      rename(scene.path("wrong.key"), scene.path(file))
    } else {
      try scene.write(file, text: "garbage")
    }
    try await stage.daemon.logged("[crit]", "NOT in effect, the former content of", file)
    try list(scene, stage.cast.authority, revoking: [stage.bob], number: 2)
    try await until("the revocation") { try await stage.ask(stage.bob).status == 400 }
    let health = try await stage.health()
    #expect(health.status == 1 && health.text.contains("FAILED  file: NOT in effect, "), "\(health.everything)")
    #expect(health.text.contains(file))
    // The process serves, so a probe that takes it out of service does not.
    let path = scene.path("sallyport.conf")
    #expect(try await scene.sallyport("health", "--config", path, "--ready").status == 0)
    let metrics = try await stage.ask(stage.cast.alice, "/metrics").text
    #expect(
      metrics.split(separator: "\n").contains {
        $0.hasPrefix("sallyport_file_stale{") && $0.contains("/\(file)\"") && $0.hasSuffix(" 1")
      }, "\(metrics)")
    #expect(try await stage.ask(stage.cast.alice, "/status").text.contains("NOT in effect"))

    // A configuration that says nothing else of the file is taken, too, and whoever asked for it hears of the file.
    stage.daemon.signal(SIGHUP)
    try await stage.daemon.logged("reconfiguring")
    try await until("the reload") {
      stage.daemon.errorLog.split(separator: "\n").count { $0.contains("reconfigured: ") } >= 3
    }
    #expect(try await stage.health().status == 1)
    try scene.write(file, good)
    try await stage.daemon.logged("in effect again: ", file)
    let mended = try await stage.health()
    #expect(mended.status == 0, "\(mended.everything)")
    #expect(try await stage.ask(stage.bob).status == 400)
  }

  /// As after the first steps: root starts it, and the key is root's alone.
  @Test(.enabled(if: geteuid() == 0))
  func `a key that only root reads stops no revocation, and is a standing warning`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), port = try scene.port()
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    try list(scene, cast.authority, revoking: [], number: 1)
    chmod(scene.folder, 0o755)
    chmod(scene.path("server.key"), 0o600)
    let daemon = try await startOfRoot(scene, port)
    #expect(try await ask(scene, cast, port, bob) == 200)
    let before = try await scene.sallyport("health", "--config", scene.path("sallyport.conf"))
    #expect(before.status == 3 && before.text.contains("WARN    file: "), "\(before.everything)")
    #expect(before.text.contains("server.key"))
    try list(scene, cast.authority, revoking: [bob], number: 2)
    try await until("the revocation") { try await ask(scene, cast, port, bob) == 400 }
    #expect(!daemon.errorLog.contains("NOT in effect"))
    let after = try await scene.sallyport("health", "--config", scene.path("sallyport.conf"))
    #expect(after.status == 3, "\(after.everything)")
    // Nobody who serves can tell what is in it, but it is another file.
    _ = try scene.identity("server", cast.authority.server())
    chmod(scene.path("server.key"), 0o600)
    try await daemon.logged("[crit]", "NOT in effect", "server.key")
    #expect(try await scene.sallyport("health", "--config", scene.path("sallyport.conf")).status == 1)
  }

  @Test(.enabled(if: geteuid() == 0))
  func `a folder that closes under the process is told, for nobody sees the revocations in it any more`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), port = try scene.port()
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    try scene.makeFolder("ca")
    try list(scene, cast.authority, revoking: [], number: 1)
    rename(scene.path("crl.pem"), scene.path("ca/crl.pem"))
    for path in [scene.folder, scene.path("ca")] { chmod(path, 0o755) }
    chmod(scene.path("server.key"), 0o644)
    let daemon = try await startOfRoot(scene, port, list: "ca/crl.pem")
    #expect(try await scene.sallyport("health", "--config", scene.path("sallyport.conf")).status == 0)
    chmod(scene.path("ca"), 0o700)
    try await daemon.logged("[crit]", "NOT in effect", "ca/crl.pem", "Permission denied")
    let health = try await scene.sallyport("health", "--config", scene.path("sallyport.conf"))
    #expect(health.status == 1 && health.text.contains("FAILED  file: "), "\(health.everything)")
    try list(scene, cast.authority, revoking: [bob], number: 2)
    rename(scene.path("crl.pem"), scene.path("ca/crl.pem"))
    #expect(try await ask(scene, cast, port, bob) == 200)
    chmod(scene.path("ca"), 0o755)
    try await until("the revocation") { try await ask(scene, cast, port, bob) == 400 }
    try await daemon.logged("in effect again: ")
    #expect(try await scene.sallyport("health", "--config", scene.path("sallyport.conf")).status == 0)
  }

  /// A process that serves as nobody, and whose configuration others than root can change: so no other process opens
  /// root's files for it.
  private func startOfRoot(_ scene: Scene, _ port: UInt16, list: String = "crl.pem") async throws -> Sallyport {
    let text = configuration(
      "server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) ssl_crl \(list); return 200 in; }")
    try scene.write("part.conf", text: "server_tokens off;")
    chmod(scene.path("part.conf"), 0o666)
    let daemon = try Sallyport(
      scene, text.replacing("http {", with: "http { include part.conf;"), userAsWritten: true)
    try await daemon.untilReady()
    return daemon
  }

  private func ask(_ scene: Scene, _ cast: Cast, _ port: UInt16, _ who: IdentityFiles) async throws -> Int {
    try await scene.curl(cast.to(port) + who.curl + ["https://localhost/"]).status
  }
}
