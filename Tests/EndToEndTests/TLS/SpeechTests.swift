import TestSupport
import Testing

/// That a suite which runs over both versions of HTTP does so.
@Suite(.stagedOverBoth) struct `A test over both versions of HTTP` {
  @Test func `speaks to plain and TLS listeners in the version of its scene`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let (plain, secure) = (try scene.port(), try scene.port())
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(plain); return 200 $server_protocol; }
      server { listen 127.0.0.1:\(secure) ssl; \(Cast.tls) return 200 $server_protocol; }
      """)
    #expect(try await scene.curl(["http://127.0.0.1:\(plain)/"]).text == scene.speech.rawValue)
    let answer = try await scene.curl(cast.to(secure) + cast.alice.curl + ["https://localhost/"])
    #expect(answer.text == scene.speech.rawValue)
    #expect(try await scene.ask(plain) { try $0.get("/").text } == scene.speech.rawValue)
    #expect(try await scene.ask(tls: secure, identity: cast.alice) { try $0.get("/").text } == scene.speech.rawValue)
  }

  /// A server block that turns HTTP/2 off again stands for a test that would quietly speak HTTP/1.1.
  @Test func `fails where HTTP 2 was to be spoken and is not`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let (plain, secure, other) = (try scene.port(), try scene.port(), try scene.port())
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(other); return 200 ok; }
      server { listen 127.0.0.1:\(plain); http2 off; return 200 ok; }
      server { listen 127.0.0.1:\(secure) ssl; http2 off; \(Cast.tls) return 200 ok; }
      """)
    #expect(try await scene.curl(["http://127.0.0.1:\(other)/"]).text == "ok")
    for words in [["http://127.0.0.1:\(plain)/"], cast.to(secure) + cast.alice.curl + ["https://localhost/"]] {
      switch scene.speech {
      case .http1: #expect(try await scene.curl(words).text == "ok")
      case .http2: await #expect(throws: ToolFailed.self) { try await scene.curl(words) }
      }
    }
  }
}
