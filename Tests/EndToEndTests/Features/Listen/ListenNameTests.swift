import TestSupport
import Testing

/// A name in `listen`, beside nginx.
@Suite(.staged) struct `A name to listen on` {
  @Test func `stands for the addresses that the system knows`() async throws {
    let scene = try Scene.ofTest(), (ours, theirs) = try (scene.port(), scene.port())
    func server(_ port: UInt16) -> String { "server { listen localhost:\(port); return 200 here; }" }
    _ = try await NginxUpstream.start(scene, ports: [theirs], server(theirs))
    _ = try await Sallyport.start(scene, configuration(server(ours)))
    for host in ["127.0.0.1", "[::1]"] {
      let mine = try await scene.curl(["http://\(host):\(ours)/"])
      let yours = try await scene.curl(["http://\(host):\(theirs)/"])
      #expect(mine.exit == yours.exit && mine.text == yours.text, "\(host)")
    }
  }

  @Test func `that nobody knows stops start and check at its place`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    let path = try scene.write(
      "bad.conf", text: configuration("server {\nlisten nosuch.invalid:\(port); return 200 x; }"))
    for command in ["check", "run"] {
      let result = try await scene.sallyport(command, "--config", path)
      #expect(result.status != 0, "\(command)")
      #expect(
        result.everything.contains("host not found in \"listen\" directive: \"nosuch.invalid:\(port)\""),
        "\(result.everything)")
    }
    // For another machine, names aren't looked up.
    let offline = try await scene.sallyport("check", "--offline", "--config", path)
    #expect(offline.status == 0, "\(offline.everything)")
  }
}
