import TestSupport
import Testing

/// Variables where nginx has them: the file of `auth_basic_user_file`, and what `set` may set. And `max_headers`.
@Suite(.staged) struct `Variables of files and fields` {
  @Test func `the file of passwords that a request names is nginx's, and a file that is missing lets nobody in`()
    async throws
  {
    let scene = try Scene.ofTest()
    try scene.makeFolder("users")
    try scene.makeFolder("users/folder")
    try scene.write("users/a", text: "alice:{PLAIN}secret\n")
    try scene.write("users/b", text: "bob:{PLAIN}secret\n")
    try scene.write("users/empty", text: "")
    let comparison = try await NginxComparison(
      scene,
      """
      server { listen PORT;
        location / { auth_basic "r $arg_u"; auth_basic_user_file FOLDER/users/$arg_u; proxy_pass http://UPSTREAM; }
        location /relative { auth_basic r; auth_basic_user_file ./FOLDER/../$arg_u; proxy_pass http://UPSTREAM; }
      }
      """)
    let words = ["/?u=a", "/?u=b", "/?u=missing", "/?u=missing/deeper", "/?u=a/x"]
    try await comparison.expectSame(
      words.flatMap { path in
        [
          .init(path), .init(path, "-u", "alice:secret"), .init(path, "-u", "alice:wrong"),
          .init(path, "-u", "bob:secret"),
        ]
      })
    #expect(try await comparison.ask("/?u=a", "-u", "alice:secret").status == 200)
    #expect(try await comparison.ask("/?u=missing", "-u", "alice:secret").status == 403)
    #expect(try await comparison.ask("/?u=empty", "-u", "alice:secret").status == 500)
    #expect(try await comparison.ask("/?u=folder", "-u", "alice:secret").status == 500)
    // A request must not choose a file outside the folder that the configuration names.
    for path in ["/?u=../users/a", "/?u=folder/../a", "/relative?u=a"] {
      #expect(try await comparison.ask(path, "-u", "alice:secret").status == 403, "\(path)")
    }
    try await comparison.daemon.logged("[error]", "invalid path", "in \"auth_basic_user_file\"")
  }

  @Test func `set defines the variables that nginx lets it define`() async throws {
    let scene = try Scene.ofTest()
    let comparison = try await NginxComparison(
      scene,
      """
      add_header A "$http_x_a|$arg_b|$cookie_c|$http_x_d|$limit_rate|$args" always;
      server { listen PORT;
        location /set { set $http_x_a own$arg_b; set $arg_b two; set $cookie_c three; set $limit_rate 5k; set $args z;
          proxy_set_header X-Own $http_x_a; proxy_pass http://UPSTREAM; }
        location / { proxy_pass http://UPSTREAM; }
      }
      """)
    try await comparison.expectSame([
      .init("/set?b=1", "-H", "X-A: a", "-H", "X-D: d", "-H", "Cookie: c=1"), .init("/set"),
      .init("/?b=1", "-H", "X-A: a"),
    ])
    let names = [
      "uri", "is_args", "http_host", "http_cookie", "sent_http_location", "request_body", "ssl_client_verify",
    ]
    for name in names {
      let result = try scene.check("events {} http { server { set $\(name) a; } }")
      #expect(result.contains("the duplicate \"\(name)\" variable"), "\(result)")
    }
  }
}

@Suite(.staged) struct `max_headers` {
  @Test func `ends a request with more fields, and no other`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(
      scene, to: upstream.port, server: "max_headers 20; large_client_header_buffers 4 32k;")
    for (count, status) in [(5, 200), (30, 400), (900, 400), (3, 200)] {
      let fields = (0..<count).flatMap { ["-H", "X-\($0): a"] }
      let result = try await proxy.curl("/", fields)
      #expect(result.status == status, "\(count)")
    }
  }
}
