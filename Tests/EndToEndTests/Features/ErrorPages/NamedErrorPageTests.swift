import TestSupport
import Testing

@Suite(.stagedOverBoth) struct `A named error page` {
  @Test(arguments: ["/dead", "/dead-unbuffered", "/idiom", "/intercepted"])
  func `gets the method and the body of the request`(path: String) async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let (port, dead) = try (scene.port(), scene.port())
    _ = try await Sallyport.serve(
      scene,
      """
      server {
        listen 127.0.0.1:\(port);
        client_body_buffer_size 16k;
        error_page 418 500 502 = @backup; error_page 413 = @large;
        location /dead { proxy_pass http://127.0.0.1:\(dead); }
        location /dead-unbuffered { proxy_request_buffering off; proxy_pass http://127.0.0.1:\(dead); }
        location /idiom { return 418; }
        location /small { client_max_body_size 10; proxy_pass http://127.0.0.1:\(dead); }
        location /intercepted { proxy_pass http://127.0.0.1:\(upstream.port)/status/500; proxy_intercept_errors on; }
        location @backup { proxy_pass http://127.0.0.1:\(upstream.port); }
        location @large { proxy_pass http://127.0.0.1:\(upstream.port); }
      }
      """)
    // Kept in memory, and in a file.
    for count in [3, 100_000] {
      let body = Pattern.bytes(count)
      let answer = try await scene.curl(["-X", "PUT", "http://127.0.0.1:\(port)\(path)?a=%20"], input: body)
      #expect(answer.status == 200)
      #expect(answer["X-Method"] == "PUT" && answer["X-Target"] == "\(path)?a=%20")
      #expect(Pattern.equal(answer.body, body))
    }
    // What was at fault itself goes nowhere.
    let large = try await scene.ask(port) { try $0.post("/small", Pattern.bytes(11)) }
    #expect(large["X-Method"] == "GET" && large.body.isEmpty)
  }
}
