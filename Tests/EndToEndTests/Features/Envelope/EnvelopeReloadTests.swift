import Glibc
import TestSupport
import Testing

@Suite(.staged) struct `Replays after a reload` {
  @Test func `a replay is refused after reloads that put blocks in front, take a location away and restore it`()
    async throws
  {
    let scene = try Scene.ofTest(), cast = try EnvelopeCast(scene)
    let upstream = try ScriptedUpstream.echo(scene), port = try scene.port(), other = try scene.port()
    let location =
      "location / { proxy_pass http://127.0.0.1:\(upstream.port); \(cast.lines("message_envelope_replay_window 1h;")) }"
    func server(_ port: UInt16, _ location: String) -> String { "server { listen 127.0.0.1:\(port); \(location) }" }
    let daemon = try await Sallyport.start(scene, configuration(server(port, location)))
    let sealed = try cast.seal("pay")
    func post(_ body: [UInt8]) async throws -> Int {
      try await scene.curl(["http://127.0.0.1:\(port)/echo"], input: body).status
    }
    #expect(try await post(sealed) == 200)
    let files = [
      server(other, location) + server(port, location), server(other, "return 204;") + server(port, "return 204;"),
      server(port, location),
    ]
    for (turn, file) in files.enumerated() {
      try daemon.rewrite(configuration(file))
      daemon.signal(SIGHUP)
      try await daemon.logged("reconfigured: generation \(turn + 2)")
      #expect(try await post(sealed) == (turn == 1 ? 204 : 400))
    }
    #expect(try await post(cast.seal("pay")) == 200)
    #expect(upstream.requests("POST") == 2)
  }
}
