import Bytes
import Crypto
import Foundation
import Glibc
import TestSupport
import Testing

@Suite(.staged) struct `sallyport proxy` {
  /// A variable of the tests themselves has the prefix, too.
  private func run(_ scene: Scene, _ words: [String], environment: [String: String] = [:]) throws -> ChildProcess {
    let variables = environment.map { "\($0.key)=\($0.value)" }.sorted()
    let process = try ChildProcess(
      "env", Self.clean + variables + [Sallyport.binary(), "proxy"] + words, in: scene.folder,
      output: scene.path("proxy.out"), errors: scene.path("proxy.err"))
    scene.atEnd { process.stop() }
    scene.onFailure(show: "proxy.err") { scene.text("proxy.err") }
    return process
  }

  private static var clean: [String] {
    ProcessInfo.processInfo.environment.keys.filter { $0.hasPrefix("SALLYPORT_") }.sorted().flatMap { ["-u", $0] }
  }

  /// Root's scene is root's alone.
  private static var asRoot: [String] { geteuid() == 0 ? ["--user", "root"] : [] }

  private func status(_ scene: Scene, _ words: [String], environment: [String: String] = [:]) async throws -> ToolResult
  {
    let variables = environment.map { "\($0.key)=\($0.value)" }.sorted()
    return try await scene.run("env", Self.clean + variables + [Sallyport.binary()] + words)
  }

  @Test func `forwards the clients of a CA to a pinned upstream, from options`() async throws {
    let scene = try Scene.ofTest()
    let cast = try Cast(scene)
    let identity = try cast.authority.server(names: ["up.test"])
    let server = try await OpenSSLServer.start(scene, scene.identity("up", identity), "-www")
    let (port, probe) = try (scene.port(), scene.port())
    let pin = Pin.spelling(publicKeyDigest: identity.certificate.spkiSHA256)
    let words =
      [
        "--listen", "127.0.0.1:\(port)", "--cert", "server.pem", "--key", "server.key", "--client-ca", "ca.pem",
        "--to", "https://127.0.0.1:\(server.port)", "--health-listen", ":\(probe)",
      ] + Self.asRoot
    let process = try run(scene, words + ["--pin", pin])
    try await until("it serves") { try await scene.curl(["http://127.0.0.1:\(probe)/"]).text == "ok\n" }
    let address = cast.to(port) + ["https://localhost/"]
    #expect(try await scene.curl(cast.alice.curl + address).status == 200)
    #expect(try await scene.curl(address).status == 400)
    #expect(scene.text("proxy.err").contains("ssl_verify_client on;"))
    let health = try await status(scene, ["health", "--listen", "127.0.0.1:\(port)"])
    #expect(health.status == 0, "\(health.everything)")
    kill(process.identifier, SIGHUP)
    try await until("a reload") { scene.text("proxy.err").contains("reconfigured: generation 2") }
    #expect(try await scene.curl(cast.alice.curl + address).status == 200)
    // What it prints is a configuration file.
    let printed = try await status(scene, ["proxy"] + words + ["--pin", pin, "--print"])
    try scene.write("printed.conf", printed.output)
    let checked = try await scene.sallyport("check", "--config", scene.path("printed.conf"))
    #expect(printed.status == 0 && checked.status == 0, "\(printed.everything) \(checked.everything)")
    process.stop()
    // With another pin, and with the system's CAs, the upstream gets nothing.
    for other in [["--pin", "sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="], []] {
      let refusing = try run(scene, words + other)
      try await until("it serves") { try await scene.curl(["http://127.0.0.1:\(probe)/"]).text == "ok\n" }
      #expect(try await scene.curl(cast.alice.curl + address).status == 502)
      refusing.stop()
    }
  }

  @Test func `takes everything from variables, as a sidecar does`() async throws {
    let scene = try Scene.ofTest()
    let cast = try Cast(scene)
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    let upstream = try ScriptedUpstream.echo(scene)
    let port = try scene.port()
    var environment = [
      "SALLYPORT_LISTEN": "127.0.0.1:\(port)", "SALLYPORT_CERT": "server.pem", "SALLYPORT_KEY": "server.key",
      "SALLYPORT_CLIENT_CA": "ca.pem", "SALLYPORT_TO": "http://127.0.0.1:\(upstream.port)",
      "SALLYPORT_ALLOW": "cn=carol\ncn=bob", "SALLYPORT_SERVICE_HOST": "10.0.0.1",
    ]
    if geteuid() == 0 { environment["SALLYPORT_USER"] = "root" }
    _ = try run(scene, [], environment: environment)
    try await until("health") { try await status(scene, ["health"], environment: environment).status == 0 }
    let address = cast.to(port) + ["https://localhost/path?q"]
    #expect(try await scene.curl(bob.curl + ["-H", "X-Client-DN: CN=admin"] + address).status == 200)
    let received = upstream.receivedText
    #expect(received.contains("X-Client-DN: CN=bob,") && !received.contains("CN=admin"), "\(received)")
    #expect(try await scene.curl(cast.alice.curl + address).status == 403)
    environment["SALLYPORT_DENNY"] = "cn=bob"
    let mistyped = try await status(scene, ["proxy"], environment: environment)
    #expect(
      mistyped.status == 1 && mistyped.errors.contains("SALLYPORT_DENNY") && mistyped.errors.contains("SALLYPORT_DENY?")
    )
  }

  /// Everything that a file can be wrong about, and everything that the language can be: the option is named.
  @Test func `each fault names the option, and no directive`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    try scene.write("junk", text: "junk")
    let whole: [(String, String)] = [
      ("--listen", "127.0.0.1:\(try scene.port())"), ("--cert", "server.pem"), ("--key", "server.key"),
      ("--client-ca", "ca.pem"), ("--to", "https://127.0.0.1:1"), ("--upstream-ca", "ca.pem"),
    ]
    let wrong: [(option: String, value: String)] = [
      ("--cert", "none.pem"), ("--cert", "junk"), ("--key", "none.key"), ("--key", "junk"), ("--key", "alice.key"),
      ("--client-ca", "none"), ("--client-ca", "junk"), ("--client-ca", "a;\"}\n$x"), ("--crl", "none"),
      ("--crl", "junk"),
      ("--crl", "ca.pem"), ("--pin", "junk"), ("--pin", "none"), ("--pin", "sha256//x"), ("--upstream-ca", "none"),
      ("--upstream-ca", "junk"), ("--upstream-cert", "none"), ("--upstream-cert", "ca.pem"),
      ("--password-file", "none"),
      ("--user", "no such user"), ("--allow", "dsn=x"), ("--allow", "dns=~("), ("--deny", "fingerprint=zz"),
      ("--verify", "maybe"), ("--log-level", "loud"), ("--to", "https://host/path"), ("--listen", "300.1.1.1:1"),
      ("--listen", "10.255.255.1:8443"), ("--upstream-name", "a b"),
    ]
    // As in nginx, a process of another user than root ignores the user, and serves.
    for (option, value) in wrong where option != "--user" || geteuid() == 0 {
      let words = whole.filter { $0.0 != option }.flatMap { [$0.0, $0.1] } + [option, value]
      let result = try await status(scene, ["proxy"] + words + (option == "--user" ? [] : Self.asRoot))
      let told = result.errors
      #expect([1, 78].contains(result.status), "\(option) \(value): \(result.everything)")
      #expect(told.contains(option), "\(option) \(value): \(told)")
      let names = told.matches(of: /[a-z]+_[a-z_]+/).map { String($0.output) }
      #expect(
        names.isEmpty && !told.contains("directive") && !told.contains("the options of"), "\(option) \(value): \(told)")
    }
  }

  @Test func `--demo-ca needs no certificate at all`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let port = try scene.port()
    let folder = scene.path("trial")
    _ = try run(
      scene,
      ["--listen", "127.0.0.1:\(port)", "--to", "http://127.0.0.1:\(upstream.port)", "--demo-ca", "--demo-dir", folder])
    func ask(_ name: String) async throws -> Int {
      try await scene.curl([
        "--cacert", "\(folder)/ca.crt", "--cert", "\(folder)/\(name).crt", "--key", "\(folder)/\(name).key",
        "https://localhost:\(port)/",
      ]).status
    }
    try await until("it serves") { scene.text("proxy.err").contains("curl --cacert \(folder)/ca.crt") }
    #expect(try await ask("client") == 200)
    #expect(try await ask("revoked") == 400)
    let both = try await status(scene, ["proxy", "--demo-ca", "--demo-dir", folder, "--client-ca", "x"])
    #expect(both.status == 1 && both.errors.contains("leave out --client-ca"), "\(both.everything)")
  }
}
