import Glibc
import TestSupport
import Testing

/// Requests that wait for something while something else goes wrong. Nothing that they have waited for may move them past
/// a check of the place where they went on.
@Suite(.staged) struct `Requests that wait` {
  @Test func `are not admitted elsewhere by what they waited for, when their trailers are invalid`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene), port = try scene.port()
    let answers = Flag()
    let asked = try ScriptedUpstream(scene) { wire, _ in
      while try wire.request() != nil {
        answers.wait()
        try wire.answer("no", status: "403 Forbidden")
      }
    }
    try scene.write("flag", text: "")
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port); http2 on; server_name h; error_page 400 = @protected;
        location /file/ { if (-f \(scene.folder)/flag) { set $z 1; } proxy_pass http://127.0.0.1:\(upstream.port); }
        location /try/ { root \(scene.folder); try_files /none /flag =404; }
        location = /ask { internal; proxy_pass http://127.0.0.1:\(asked.port); }
        location @protected { auth_request /ask; proxy_pass http://127.0.0.1:\(upstream.port); }
      }
      """)
    let paths = ["/file/x", "/try/x"]
    async let statuses = scene.frames(port) { client in
      for (index, path) in paths.enumerated() {
        let stream = UInt32(index * 2 + 1)
        // Trailers of more than 8 KiB make the body invalid while the request waits for its file.
        client.send(
          .headers(stream, HPACK.block(HPACK.request("POST", path)), flags: HTTP2Frame.endHeaders),
          .data(stream, "x", ends: false),
          .headers(stream, HPACK.block([("x-t", String(repeating: "t", count: 9000))])))
      }
      return try paths.indices.map { try client.response(on: UInt32($0 * 2 + 1)).status }
    }
    // Another request for a file, which a thread of the same pool looks at later.
    _ = try await scene.curl(["http://127.0.0.1:\(port)/try/x"])
    answers.raise()
    #expect(try await !statuses.contains(200))
    #expect(upstream.requests("POST") + upstream.requests("GET") == 0)
  }

  @Test func `a step that rests on a variable which could not be computed ends in 500`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port(), upstream = try ScriptedUpstream.echo(scene)
    try scene.write("users", text: "joe:{PLAIN}joe\n")
    try scene.makeFolder("flags")
    _ = try await Sallyport.serve(
      scene,
      """
      map $arg_re $tenant { default ""; "~^((a+)+c|.*b)$" bad; }
      server { listen 127.0.0.1:\(port);
        location /flag { if (-f \(scene.folder)/flags/$tenant) { return 403; } return 200 in; }
        location /users { auth_basic r; auth_basic_user_file \(scene.folder)/users$tenant; proxy_pass http://127.0.0.1:\(upstream.port); }
      }
      """)
    let hard = String(repeating: "a", count: 60) + "b"
    for path in ["/flag", "/users"] {
      let answer = try await scene.curl(["-u", "joe:joe", "http://127.0.0.1:\(port)\(path)?re=\(hard)"])
      #expect(answer.status == 500, "\(path) \(answer.status) \(answer.text)")
    }
  }

  @Test func `try_files of the location that auth_request names decides, as in nginx`() async throws {
    let scene = try Scene.ofTest()
    try scene.makeFolder("tokens")
    try scene.write("tokens/good", text: "")
    let both = try await NginxComparison(
      scene,
      """
      server { listen PORT;
        location = /auth { internal; root FOLDER/tokens; try_files /$http_x_token =403; proxy_pass http://UPSTREAM; }
        location / { auth_request /auth; proxy_pass http://UPSTREAM; } }
      """)
    try await both.expectSame([
      .init("/a"), .init("/a", "-H", "X-Token: bad"), .init("/a", "-H", "X-Token: good"),
    ])
    #expect(try await both.ask("/a").status == 403)
  }

  @Test func `an X-Accel-Redirect is of no other spelling than a client's path, and is no answer to auth_request`()
    async throws
  {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    try scene.makeFolder("www/secret")
    try scene.write("www/secret/s", text: "SECRET")
    try scene.write("www/open", text: "open")
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { request in
        let status = request.target.hasPrefix("/auth") ? "403 Forbidden" : "200 OK"
        try wire.answer("u", status: status, fields: ["X-Accel-Redirect: \(request["X-To"] ?? "")"])
      }
    }
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port); root \(scene.folder)/www;
        location /secret/ { deny all; }
        location /app { proxy_pass http://127.0.0.1:\(upstream.port); }
        location = /auth { internal; proxy_pass http://127.0.0.1:\(upstream.port); }
        location /asked { auth_request /auth; try_files /open =404; }
      }
      """)
    for target in ["/secret/s", "/./secret/s", "//secret/s", "/secret/./s", "/%2e/secret/s"] {
      let answer = try await scene.curl(["-H", "X-To: \(target)", "http://127.0.0.1:\(port)/app"])
      #expect(answer.status == 403, "\(target) \(answer.text)")
    }
    #expect(try await scene.curl(["-H", "X-To: /open", "http://127.0.0.1:\(port)/app"]).text == "open")
    #expect(try await scene.curl(["-H", "X-To: /open", "http://127.0.0.1:\(port)/asked"]).status == 403)
  }

  @Test func `a redirect to a folder names no other server`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    try scene.makeFolder("www/evil.example")
    try scene.makeFolder("vh/good-secret")
    try scene.makeFolder("vh/good")
    try scene.write("vh/good-secret/f", text: "SECRET")
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port); merge_slashes off; absolute_redirect off; root \(scene.folder)/www;
        location /try { try_files $arg_f $arg_f/ =404; }
        location /vh { root \(scene.folder)/vh/$arg_h; try_files $arg_f =404; }
      }
      """)
    for path in ["//evil.example", "/try?f=//evil.example"] {
      let answer = try await scene.curl(["--path-as-is", "http://127.0.0.1:\(port)\(path)"])
      #expect(answer["Location"].map { !$0.hasPrefix("//") } ?? true, "\(path) \(answer.heads)")
    }
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/vh?h=good&f=-secret/f"]).status == 403)
  }
}
