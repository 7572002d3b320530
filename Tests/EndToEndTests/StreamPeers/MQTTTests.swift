import TestSupport
import Testing

/// A real Mosquitto.
struct MosquittoServer: Sendable {
  static let isInstalled = PeerFolder.has("mosquitto", "mosquitto_pub", "mosquitto_sub")
  let port: UInt16
  private let folder: PeerFolder

  var log: String { folder.text("output") }

  static func start(_ scene: Scene) async throws -> MosquittoServer {
    let folder = try PeerFolder(scene, "mosquitto"), port = try scene.port()
    let settings = try folder.write(
      "mosquitto.conf",
      text: """
        listener \(port) 127.0.0.1
        allow_anonymous true
        persistence false

        """)
    try await folder.handOver()
    try await folder.serve(["mosquitto", "-c", settings, "-v"]) { accepts(port) }
    return MosquittoServer(port: port, folder: folder)
  }
}

@Suite(.staged, .enabled(if: MosquittoServer.isInstalled, "Mosquitto is not installed"))
struct `Mosquitto through a stream` {
  /// The options of Mosquitto's clients.
  private func options(_ proxy: PeerProxy, _ identity: IdentityFiles?) -> [String] {
    ["-h", "localhost", "-p", "\(proxy.port)", "--cafile", proxy.scene.path("ca.pem")]
      + (identity.map { ["--cert", $0.certificate, "--key", $0.key] } ?? [])
  }

  @Test(arguments: ["mqttv311", "mqttv5"]) func `subscribers get what others publish`(version: String) async throws {
    let scene = try Scene.ofTest(), server = try await MosquittoServer.start(scene)
    let proxy = try await PeerProxy(Cast(scene), to: server.port)
    let mine = options(proxy, proxy.cast.alice) + ["-V", version, "-q", "1", "-t", "news"]
    let subscriber = try ChildProcess(
      "mosquitto_sub", mine + ["-C", "21"], in: scene.folder, output: scene.path("news"),
      errors: scene.path("subscriber.err"))
    scene.atEnd { subscriber.stop() }
    try await until("the subscription") { server.log.contains("Sending SUBACK") }
    for number in 1...20 {
      let sent = try await scene.run("mosquitto_pub", mine + ["-m", "number \(number)"])
      #expect(sent.status == 0, "\(sent.everything)")
    }
    let long = String(repeating: "long ", count: 200_000)
    let sent = try await scene.run("mosquitto_pub", mine + ["-s"], input: Array(long.utf8))
    #expect(sent.status == 0, "\(sent.everything)")
    #expect(try await subscriber.ended() == .exited(0))
    let lines = scene.text("news").split(separator: "\n").map(String.init)
    #expect(lines.prefix(20) == (1...20).map { "number \($0)" }[...])
    #expect(lines.last == long)
    #expect(!proxy.daemon.errorLog.contains("[error]"))
  }

  @Test func `a client without the right certificate reaches nothing`() async throws {
    let scene = try Scene.ofTest(), server = try await MosquittoServer.start(scene)
    let proxy = try await PeerProxy(Cast(scene), to: server.port)
    for identity in [nil, proxy.stranger] {
      let answer = try await scene.run(
        "mosquitto_pub", options(proxy, identity) + ["-t", "news", "-m", "false"])
      #expect(answer.status != 0, "\(answer.everything)")
    }
    #expect(!server.log.contains("Received PUBLISH") && !server.log.contains("New client connected"), "\(server.log)")
  }

  @Test func `a session stays open while nothing but pings passes`() async throws {
    let scene = try Scene.ofTest(), server = try await MosquittoServer.start(scene)
    let proxy = try await PeerProxy(Cast(scene), to: server.port, "proxy_timeout 12s;")
    // The least interval that the client takes is 5 s.
    let mine = options(proxy, proxy.cast.alice) + ["-t", "news"]
    let subscriber = try ChildProcess(
      "mosquitto_sub", mine + ["-k", "5", "-C", "1"], in: scene.folder, output: scene.path("news"),
      errors: scene.path("subscriber.err"))
    scene.atEnd { subscriber.stop() }
    try await until("three pings", within: .seconds(60)) {
      server.log.matches(of: /Received PINGREQ/).count >= 3
    }
    #expect(try await scene.run("mosquitto_pub", mine + ["-m", "still here"]).status == 0)
    #expect(try await subscriber.ended() == .exited(0))
    #expect(scene.text("news") == "still here\n")
    #expect(server.log.matches(of: /New client connected/).count == 2)
  }
}
