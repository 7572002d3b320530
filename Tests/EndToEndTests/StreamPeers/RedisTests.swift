import TestSupport
import Testing

/// A real Redis.
struct RedisServer: Sendable {
  static let isInstalled = PeerFolder.has("redis-server", "redis-cli", "redis-benchmark")
  let scene: Scene
  let port: UInt16

  /// `identity`: it speaks TLS alone, and takes clients with a certificate of ca.pem.
  static func start(_ scene: Scene, identity: IdentityFiles? = nil) async throws -> RedisServer {
    let folder = try PeerFolder(scene, "redis"), port = try scene.port()
    var command = ["redis-server", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder.path]
    if let identity {
      try folder.take(identity)
      try folder.write("ca.pem", text: scene.text("ca.pem"))
      command += [
        "--port", "0", "--tls-port", "\(port)", "--tls-cert-file", "server.pem", "--tls-key-file", "server.key",
        "--tls-ca-cert-file", "ca.pem", "--tls-auth-clients", "yes",
      ]
    } else {
      command += ["--port", "\(port)"]
    }
    try await folder.handOver()
    try await folder.serve(command) { accepts(port) }
    return RedisServer(scene: scene, port: port)
  }

  /// Asks it past the daemon; for one without TLS.
  func ask(_ words: String...) async throws -> String {
    let result = try await scene.run("redis-cli", ["-h", "127.0.0.1", "-p", "\(port)"] + words)
    guard result.status == 0 else { throw ToolFailed(description: "\(words): \(result.everything)") }
    return result.text
  }
}

extension PeerProxy {
  /// The options of Redis's clients for TLS.
  fileprivate func redis(_ identity: IdentityFiles?) -> [String] {
    ["-h", "127.0.0.1", "-p", "\(port)", "--tls", "--cacert", scene.path("ca.pem")]
      + (identity.map { ["--cert", $0.certificate, "--key", $0.key] } ?? [])
  }

  fileprivate func redis(_ words: String...) async throws -> ToolResult {
    try await scene.run("redis-cli", redis(cast.alice) + words)
  }
}

@Suite(.staged, .enabled(if: RedisServer.isInstalled, "Redis is not installed"))
struct `Redis through a stream` {
  @Test func `redis-cli sets and gets`() async throws {
    let scene = try Scene.ofTest(), server = try await RedisServer.start(scene)
    let proxy = try await PeerProxy(Cast(scene), to: server.port)
    #expect(try await proxy.redis("ping").text == "PONG\n")
    #expect(try await proxy.redis("set", "color", "green").text == "OK\n")
    #expect(try await proxy.redis("get", "color").text == "green\n")
    #expect(try await server.ask("get", "color") == "green\n")
    // A value of 8 MiB, from standard input.
    let value = [UInt8](repeating: UInt8(ascii: "v"), count: 8 << 20)
    let big = try await scene.run("redis-cli", proxy.redis(proxy.cast.alice) + ["-x", "set", "big"], input: value)
    #expect(big.text == "OK\n", "\(big.errors)")
    #expect(try await proxy.redis("strlen", "big").text == "\(value.count)\n")
    #expect(try await proxy.redis("get", "big").output == value + [10])
  }

  @Test func `a client without the right certificate reaches nothing`() async throws {
    let scene = try Scene.ofTest(), server = try await RedisServer.start(scene)
    let proxy = try await PeerProxy(Cast(scene), to: server.port)
    for identity in [nil, proxy.stranger] {
      let answer = try await scene.run("redis-cli", proxy.redis(identity) + ["set", "color", "red"])
      #expect(!answer.text.contains("OK"), "\(answer.everything)")
    }
    let plain = try await scene.run("redis-cli", ["-h", "127.0.0.1", "-p", "\(proxy.port)", "set", "color", "red"])
    #expect(!plain.text.contains("OK"), "\(plain.everything)")
    #expect(try await server.ask("exists", "color") == "0\n")
    let kinds = try await server.ask("info", "commandstats")
    #expect(!kinds.contains("cmdstat_set:"), "\(kinds)")
  }

  @Test func `subscribers get what others publish`() async throws {
    let scene = try Scene.ofTest(), server = try await RedisServer.start(scene)
    let proxy = try await PeerProxy(Cast(scene), to: server.port)
    for number in 1...2 {
      let subscriber = try ChildProcess(
        "redis-cli", proxy.redis(proxy.cast.alice) + ["subscribe", "news"], in: scene.folder,
        output: scene.path("subscriber\(number)"), errors: scene.path("subscriber.err"))
      scene.atEnd { subscriber.stop() }
    }
    try await until("two subscribers") { try await server.ask("pubsub", "numsub", "news") == "news\n2\n" }
    for count in 1...50 { #expect(try await proxy.redis("publish", "news", "number \(count)").text == "2\n") }
    for number in 1...2 {
      try await until("subscriber \(number) to have all") {
        scene.text("subscriber\(number)").hasSuffix("message\nnews\nnumber 50\n")
      }
      #expect(scene.text("subscriber\(number)").matches(of: #/message\nnews\nnumber /#).count == 50)
    }
  }

  @Test func `redis-benchmark's pipelines are all answered`() async throws {
    let scene = try Scene.ofTest(), server = try await RedisServer.start(scene)
    let proxy = try await PeerProxy(Cast(scene), to: server.port)
    let count = PeerProxy.scaled(40_000)
    let result = try await scene.run(
      "redis-benchmark",
      proxy.redis(proxy.cast.alice)
        + ["-q", "-P", "16", "-c", "50", "-n", "\(count)", "-r", "1000", "-d", "100", "-t", "set,get"],
      within: .seconds(120))
    #expect(result.status == 0, "\(result.everything)")
    #expect(result.text.contains("SET: ") && result.text.contains("GET: "), "\(result.everything)")
    let kinds = try await server.ask("info", "commandstats")
    for kind in ["get", "set"] {
      let calls = kinds.firstMatch(of: try Regex("cmdstat_\(kind):calls=(\\d+)", as: (Substring, Substring).self))
      let number = calls.flatMap { Int($0.output.1) } ?? 0
      // It may send up to one pipeline more for each client.
      #expect(number >= count && number <= count + 16 * 50, "\(kind): \(number)")
    }
    #expect(!proxy.daemon.errorLog.contains("[error]"))
  }

  @Test func `the upstream speaks TLS and asks for a certificate`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let server = try await RedisServer.start(scene, identity: cast.server)
    _ = try scene.identity("proxy", cast.authority.client(commonName: "proxy"))
    let proxy = try await PeerProxy(
      cast, to: server.port,
      "\(PeerProxy.tlsUpstream) proxy_ssl_certificate proxy.pem; proxy_ssl_certificate_key proxy.key;")
    #expect(try await proxy.redis("set", "color", "green").text == "OK\n")
    #expect(try await proxy.redis("get", "color").text == "green\n")
  }
}
