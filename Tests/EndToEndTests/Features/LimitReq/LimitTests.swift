import TestSupport
import Testing

@Suite(.stagedOverBoth) struct `Limits of requests and connections` {
  /// The level and the text of each line about a limit, without the request's particulars.
  private func lines(_ log: String) -> [String] {
    log.split(separator: "\n").compactMap { line in
      guard let start = line.firstRange(of: "limiting ") ?? line.firstRange(of: "delaying "),
        let end = line.firstRange(of: ", client:"), let level = line.firstMatch(of: /\[([a-z]+)\]/)
      else { return nil }
      return "\(level.1) \(line[start.lowerBound..<end.lowerBound])"
    }
  }

  @Test func `limit_req and limit_conn refuse, delay and log as nginx does`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let (port, nginx) = try (scene.port(), scene.port())
    // A rate so low that nothing drains during the test.
    let http = """
      limit_req_zone $arg_k zone=slow:1m rate=1r/m; limit_req_zone $arg_j zone=other:1m rate=1r/m;
      limit_req_zone $arg_f zone=fast:1m rate=20r/s;
      limit_conn_zone $arg_k zone=count:1m;
      """
    let pass = "add_header X-Req \"$limit_req_status\" always; add_header X-Conn \"$limit_conn_status\" always;"
    func location(_ path: String, _ lines: String) -> String {
      "location \(path) { \(lines) \(pass) proxy_pass http://127.0.0.1:\(upstream.port); }"
    }
    let locations = [
      location("/plain", "limit_req zone=slow;"), location("/burst", "limit_req zone=slow burst=2 nodelay;"),
      location("/free", "limit_req zone=slow burst=3 delay=3;"),
      location("/coded", "limit_req zone=slow; limit_req_status 429; limit_req_log_level warn;"),
      location("/silent", "limit_req zone=slow; limit_req_status 444;"),
      location("/dry", "limit_req zone=slow burst=1; limit_req_dry_run on; limit_req_log_level notice;"),
      location("/two", "limit_req zone=slow burst=5 nodelay; limit_req zone=other;"),
      location("/twice", "limit_req zone=other burst=5 nodelay; limit_req zone=slow burst=1 nodelay;"),
      location("/delayed", "limit_req zone=fast burst=1; limit_req_log_level info;"),
      location("/conn", "limit_conn count 1;"),
      location("/page", "limit_req zone=slow; error_page 503 = /plain;"),
      location("/named", "limit_req zone=slow; error_page 503 = @named;"),
      location("@named", "limit_req zone=slow;"),
    ].joined(separator: "\n")
    let reference = try await NginxUpstream.start(
      scene, ports: [nginx], "\(http) server { listen 127.0.0.1:\(nginx); \(locations) }")
    let daemon = try await Sallyport.start(
      scene, configuration("\(http) server { listen 127.0.0.1:\(port); \(locations) }"))
    let long = String(repeating: "x", count: 300)
    for path in [
      "/plain?k=a", "/plain?k=a", "/plain?k=b", "/plain", "/plain?k=", "/burst?k=c", "/burst?k=c", "/burst?k=c",
      "/burst?k=c", "/free?k=d", "/free?k=d", "/free?k=d", "/free?k=d", "/free?k=d", "/coded?k=e", "/coded?k=e",
      "/silent?k=f", "/silent?k=f", "/dry?k=g", "/dry?k=g", "/dry?k=g", "/two?k=h&j=h", "/two?k=h&j=h", "/two?k=h",
      "/two?j=i", "/two?j=i", "/twice?k=l&j=l", "/twice?k=l&j=l", "/twice?k=l&j=l", "/twice?k=l&j=l",
      "/delayed?f=m", "/delayed?f=m", "/conn?k=n", "/conn?k=n", "/conn?k=\(long)", "/conn", "/page?k=o", "/page?k=o",
      "/named?k=p", "/named?k=p",
    ] {
      let ours = try await scene.curl(["http://127.0.0.1:\(port)\(path)"])
      let theirs = try await scene.curl(["http://127.0.0.1:\(nginx)\(path)"])
      #expect(ours.status == theirs.status, "\(path)")
      // How long two requests are apart decides whether the second is delayed.
      if path.hasPrefix("/delayed") { continue }
      for name in ["X-Req", "X-Conn", "X-Target"] { #expect(ours[name] == theirs[name], "\(path) \(name)") }
    }
    let (ours, theirs) = (lines(scene.text("error.log")), lines(reference.errorLog))
    #expect(theirs.count > 10)
    func steady(_ lines: [String]) -> [String] { lines.filter { !$0.contains("fast") } }
    #expect(steady(ours).map(Self.rounded) == steady(theirs).map(Self.rounded))
    try await daemon.logged("[error]", "the value of the \"$arg_k\" key is more than 255 bytes: \"xxx")
  }

  /// The excess in whole requests: what drains at 1r/m within the test shows in the thousandths only.
  private static func rounded(_ line: String) -> String {
    line.split(separator: " ").map { word in
      let digits = word.filter { $0 != "," }
      guard let value = Double(digits) else { return String(word) }
      return "\(Int(value.rounded(.up)))"
    }.joined(separator: " ")
  }

  @Test func `no more than rate, time and burst allow reach the upstream, whichever worker takes them`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(
      scene, to: upstream.port, location: "limit_req zone=z burst=5 nodelay;",
      http: "limit_req_zone $remote_addr zone=z:1m rate=10r/s;")
    let clock = ContinuousClock(), start = clock.now
    let passed = try await withThrowingTaskGroup(of: Int.self) { group in
      for _ in 0..<6 {
        group.addTask {
          var passed = 0
          for _ in 0..<15 where try await proxy.curl("/").status == 200 { passed += 1 }
          return passed
        }
      }
      return try await group.reduce(0, +)
    }
    // A worker's clock may be a few milliseconds older than ours.
    let seconds = Double((clock.now - start) / .milliseconds(1) + 50) / 1000
    #expect(upstream.requests("GET") == passed)
    #expect(Double(passed) <= seconds * 10 + 5 + 1)
    #expect(passed >= 6)
    let log = scene.text("error.log")
    #expect(log.contains("by zone \"z\"") || passed == 90)
  }

  @Test func `a delayed request reaches the upstream later, and one whose client leaves does not`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(
      scene, to: upstream.port, location: "limit_req zone=z burst=5;",
      http: "limit_req_zone $arg_k zone=z:1m rate=2r/s;")
    #expect(try await proxy.curl("/?k=a").status == 200)
    #expect(try await proxy.curl("/?k=a").status == 200)
    #expect(upstream.requests("GET") == 2)
    #expect(try await proxy.curl("/?k=b").status == 200)
    for _ in 0..<3 { _ = try await proxy.curl("/?k=b", ["--max-time", "0.2"]) }
    try await until("the clients that left are logged") {
      scene.text("access.log").split(separator: "\n").filter { $0.contains("k=b") && $0.contains(" 499 ") }.count >= 1
    }
    #expect(upstream.requests("GET") <= 5)
  }

  @Test func `limit_rate paces each response, and what it keeps back waits in the upstream`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { request in
        if request.target.hasPrefix("/told") {
          try wire.answer(bytes: Pattern.bytes(15_000), fields: ["X-Accel-Limit-Rate: 10000"])
        } else {
          try wire.echo(request)
        }
      }
    }
    let (port, nginx) = try (scene.port(), scene.port())
    let pass = "proxy_pass http://127.0.0.1:\(upstream.port); proxy_http_version 1.1;"
    let locations = """
      add_header X-Rate $limit_rate always;
      location / { \(pass) }
      location /bytes { limit_rate 10000; limit_rate_after 5k; \(pass) }
      location /chunked { limit_rate $arg_rate; \(pass) }
      location /set { set $limit_rate 4k; \(pass) }
      """
    _ = try await NginxUpstream.start(scene, ports: [nginx], "server { listen 127.0.0.1:\(nginx); \(locations) }")
    let daemon = try await Sallyport.start(
      scene, configuration("server { listen 127.0.0.1:\(port); \(locations) }"))
    for (path, atLeast) in [
      ("/bytes/16000", 800), ("/chunked/15000?rate=10000", 800), ("/chunked/300", 0), ("/chunked/15000?rate=x", 0),
      ("/told", 800), ("/set", 0),
    ] {
      let clock = ContinuousClock(), start = clock.now
      let ours = try await scene.curl(["http://127.0.0.1:\(port)\(path)"])
      // A lower bound: a busy machine only makes it longer.
      #expect((clock.now - start) >= .milliseconds(atLeast), "\(path)")
      let theirs = try await scene.curl(["http://127.0.0.1:\(nginx)\(path)"])
      #expect(ours.status == theirs.status && ours.exit == 0, "\(path)")
      #expect(ours.body == theirs.body, "\(path)")
      #expect(ours["X-Rate"] == theirs["X-Rate"], "\(path)")
    }
    let before = try #require(daemon.memory("VmHWM"))
    _ = try await scene.curl(["--max-time", "2", "http://127.0.0.1:\(port)/bytes/64000000"])
    #expect(try #require(daemon.memory("VmHWM")) - before < 16_384)
  }

  @Test func `a zone is kept over a reload`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(
      scene, to: upstream.port, location: "limit_req zone=z;", http: "limit_req_zone $arg_k zone=z:1m rate=1r/m;")
    #expect(try await proxy.curl("/?k=a").status == 200)
    #expect(try await proxy.curl("/?k=a").status == 503)
    try proxy.daemon.rewrite(
      scene.text("sallyport.conf").replacing("limit_req zone=z;", with: "limit_req zone=z; limit_req_status 429;"))
    proxy.daemon.signal(1)
    try await until("the new configuration") { try await proxy.curl("/?k=a").status == 429 }
    #expect(try await proxy.curl("/?k=b").status == 200)
  }

  @Test func `a client's key, not its address, has the limit`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    let upstream = try ScriptedUpstream.echo(scene)
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      limit_req_zone $ssl_client_fingerprint zone=f:1m rate=1r/m;
      limit_req_zone $ssl_client_spki zone=s:1m rate=1r/m;
      limit_conn_zone $ssl_client_spki zone=c:1m;
      server {
        listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls)
        location /f { limit_req zone=f; limit_conn c 3; proxy_pass http://127.0.0.1:\(upstream.port); }
        location /s { limit_req zone=s; proxy_pass http://127.0.0.1:\(upstream.port); }
      }
      """)
    for path in ["/f", "/s"] {
      for (identity, statuses) in [(cast.alice, [200, 503, 503]), (bob, [200, 503])] {
        for status in statuses {
          let result = try await scene.curl(cast.to(port) + identity.curl + ["https://localhost\(path)"])
          #expect(result.status == status, "\(path) \(identity.certificate)")
        }
      }
    }
    #expect(upstream.requests("GET") == 4)
  }

  @Test func `exchanges in progress are counted, and a stream of HTTP/2 is one`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      // Responds to nobody until the client has gone.
      try wire.serve { if $0.target == "/free" { try wire.answer("free") } else { _ = try wire.readToEnd() } }
    }
    let proxy = try await PlainProxy(
      scene, to: upstream.port, location: "limit_conn z 2;", http: "limit_conn_zone $remote_addr zone=z:1m;")
    let mayLeave = Flag()
    func hold(_ path: String) async throws {
      try await scene.ask(proxy.port) {
        try $0.begin("GET", path)
        mayLeave.wait()
      }
    }
    async let first: () = hold("/held/1")
    async let second: () = hold("/held/2")
    // Before the end of the scope awaits both.
    defer { mayLeave.raise() }
    try await until("both requests at the upstream") { upstream.requests("GET") == 2 }
    #expect(try await proxy.curl("/free").status == 503)
    try await proxy.daemon.logged("[error]", "limiting connections by zone \"z\", client: 127.0.0.1")
    mayLeave.raise()
    _ = try await (first, second)
    try await until("the counts to be given back") { try await proxy.curl("/free").status == 200 }
  }
}
