import Dispatch
import Glibc
import TestSupport
import Testing

@Suite(.stagedOverBoth) struct `Requests that are bound to a server` {
  private struct Stand {
    let scene: Scene
    let daemon: Sallyport
    let port: UInt16
    let servers: [UInt16]

    /// `group`: with @A, @B and @C for the servers.
    init(_ scene: Scene, _ group: String, servers lines: String = "server @A; server @B; server @C;") async throws {
      self.scene = scene
      port = try scene.port()
      let servers = try (0..<3).map { _ in try scene.port() }
      self.servers = servers
      let blocks = servers.map {
        """
        server { listen 127.0.0.1:\($0); location / { return 200 "\($0)"; }
          location /login { add_header Set-Cookie "session=$arg_s; path=/" always; return 200 "\($0)"; }
          location /bad { return 500 "\($0)"; } }
        """
      }
      _ = try await NginxUpstream.start(scene, ports: servers, blocks.joined(separator: "\n"))
      let text = zip(["@A", "@B", "@C"], servers).reduce("upstream app { \(group)\n\(lines) }") {
        $0.replacing($1.0, with: "127.0.0.1:\($1.1)")
      }
      daemon = try await Sallyport.start(
        scene,
        configuration("\(text) server { listen 127.0.0.1:\(port); location / { proxy_pass http://app; } }"))
    }

    func ask(_ path: String = "/", _ fields: String...) async throws -> CurlResult {
      try await scene.curl(fields.flatMap { ["-H", $0] } + ["http://127.0.0.1:\(port)\(path)"])
    }
  }

  @Test func `sticky cookie tells the client its server, and any cookie at all is harmless`() async throws {
    let scene = try Scene.ofTest()
    let stand = try await Stand(
      scene,
      "zone z; sticky cookie srv expires=1h domain=.example.com httponly secure samesite=$arg_same path=/app;",
      servers: "server @A; server @B; server @C down;")
    let first = try await stand.ask("/?same=lax")
    let cookie = try #require(first["Set-Cookie"])
    // The MD5 of the address, as nginx has it.
    let md5 = try await scene.run("openssl", ["dgst", "-md5", "-r"], input: Array("127.0.0.1:\(first.text)".utf8))
    let identifier = String(md5.text.prefix(32))
    #expect(
      cookie.wholeMatch(
        of:
          #/srv=([0-9a-f]{32}); expires=\w{3}, \d\d-\w{3}-\d\d \d\d:\d\d:\d\d GMT; max-age=3600; domain=.example.com; httponly; secure; samesite=lax; path=/app/#
      )?.1 == identifier[...], "\(cookie) \(md5)")
    #expect(try await stand.ask("/?same=a;b")["Set-Cookie"]?.contains("samesite=strict; path") == true)
    for _ in 0..<6 { #expect(try await stand.ask("/", "Cookie: a=b; srv=\(identifier)").text == first.text) }
    let down = try await scene.run(
      "openssl", ["dgst", "-md5", "-r"], input: Array("127.0.0.1:\(stand.servers[2])".utf8))
    for value in [
      String(down.text.prefix(32)), "", "x", String(repeating: "f", count: 4000), "%00", "\u{e9}", "127.0.0.1",
    ] {
      let answer = try await stand.ask("/", "Cookie: srv=\(value)")
      #expect(answer.status == 200 && answer.text != "\(stand.servers[2])" && !answer.text.isEmpty)
      #expect(answer["Set-Cookie"]?.hasPrefix("srv=") == true)
    }
    #expect(stand.daemon.process.ending == nil)
  }

  @Test func `sticky route takes the first variable with a value, and drain admits only bound requests`() async throws {
    let scene = try Scene.ofTest()
    let stand = try await Stand(
      scene, "sticky route $cookie_route $arg_r;",
      servers: "server @A route=a; server @B route=b drain; server @C route=c;")
    for _ in 0..<9 { #expect(try await stand.ask().text != "\(stand.servers[1])") }
    for (name, server) in zip(["a", "b", "c"], stand.servers) {
      for _ in 0..<3 {
        #expect(try await stand.ask("/?r=\(name)").text == "\(server)")
        #expect(try await stand.ask("/?r=zzz", "Cookie: route=\(name)").text == "\(server)")
      }
    }
    #expect(try await stand.ask("/?r=nobody").status == 200)
    #expect(try await stand.ask()["Set-Cookie"] == nil)
  }

  @Test func `sticky learn remembers what a server's response says, in all workers and over a reload`() async throws {
    let scene = try Scene.ofTest()
    let stand = try await Stand(
      scene, "sticky learn create=$upstream_cookie_session lookup=$cookie_session zone=s:1m;")
    var sessions: [(name: String, server: String)] = []
    for number in 0..<12 {
      let answer = try await stand.ask("/login?s=name\(number)")
      sessions.append(("name\(number)", answer.text))
    }
    #expect(Set(sessions.map(\.server)).count > 1)
    func check() async throws {
      for (name, server) in sessions {
        #expect(try await stand.ask("/", "Cookie: session=\(name)").text == server, "\(name)")
      }
    }
    try await check()
    stand.daemon.signal(SIGHUP)
    try await stand.daemon.logged("generation 2")
    try await check()
    for _ in 0..<3 { #expect(try await stand.ask("/", "Cookie: session=unknown").status == 200) }
  }
}

@Suite(.staged) struct `Kept connections and shared states of groups` {
  /// The numbers of the upstream's connections for these paths.
  private func connections(_ scene: Scene, _ group: String, _ paths: [String]) async throws -> [String] {
    let (port, upstream) = try (scene.port(), scene.port())
    _ = try await NginxUpstream.start(
      scene, ports: [upstream],
      "server { listen 127.0.0.1:\(upstream); location / { return 200 \"$connection\"; } }")
    let locations = ["a", "b"].map {
      "location /\($0) { proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_pass http://kept; }"
    }
    let text = configuration(
      """
      upstream kept { server 127.0.0.1:\(upstream); \(group) }
      server { listen 127.0.0.1:\(port); \(locations.joined(separator: "\n")) }
      """)
    _ = try await Sallyport.start(scene, text.replacing("worker_processes 2", with: "worker_processes 1"))
    var found: [String] = []
    for path in paths { found.append(try await scene.curl(["http://127.0.0.1:\(port)\(path)"]).text) }
    return found
  }

  @Test(.ofHTTP1, arguments: ["", "keepalive 4 local;", "keepalive 4;", "keepalive 0;"])
  func `connections are kept by default, each for its own location`(group: String) async throws {
    let scene = try Scene.ofTest()
    let found = try await connections(scene, group, ["/a", "/a", "/b", "/b", "/a"])
    switch group {
    case "keepalive 0;": #expect(Set(found).count == 5)
    case "keepalive 4;": #expect(Set(found).count == 1)
    default: #expect(found[0] == found[1] && found[2] == found[3] && found[0] == found[4] && found[0] != found[2])
    }
  }

  @Test(.ofHTTP1) func `with zone, four workers take turns as one, and a reload goes on`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let servers = try (0..<3).map { _ in try scene.port() }
    let blocks = servers.map { "server { listen 127.0.0.1:\($0); location / { return 200 \"$server_port\"; } }" }
    _ = try await NginxUpstream.start(scene, ports: servers, blocks.joined())
    let text = configuration(
      """
      upstream app { zone app 64k;
        server 127.0.0.1:\(servers[0]) weight=5; server 127.0.0.1:\(servers[1]); server 127.0.0.1:\(servers[2]); }
      server { listen 127.0.0.1:\(port); location / { proxy_pass http://app; } }
      """)
    let daemon = try await Sallyport.start(scene, text.replacing("worker_processes 2", with: "worker_processes 4"))
    // nginx's own example of its smooth weighted round robin.
    let turn = [0, 0, 1, 0, 2, 0, 0]
    func ask(_ range: Range<Int>) async throws {
      for number in range {
        let answer = try await scene.curl(["http://127.0.0.1:\(port)/"])
        #expect(answer.text == "\(servers[turn[number % 7]])", "request \(number)")
      }
    }
    try await ask(0..<31)
    daemon.signal(SIGHUP)
    try await daemon.logged("generation 2")
    try await ask(31..<60)
  }

  @Test(.ofHTTP1) func `with zone, max_conns is that of all workers`() async throws {
    let scene = try Scene.ofTest()
    let gate = Gate()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { request in
        if request.target == "/hold" { gate.wait() }
        try wire.answer("ok")
      }
    }
    let port = try scene.port()
    let text = configuration(
      """
      upstream app { zone app 64k; server 127.0.0.1:\(upstream.port) max_conns=2; }
      server { listen 127.0.0.1:\(port); location / { proxy_pass http://app; } }
      """)
    let daemon = try await Sallyport.start(scene, text.replacing("worker_processes 2", with: "worker_processes 4"))
    let held = try (0..<2).map { _ in
      let wire = try Wire.dial(port: port)
      try wire.write("GET /hold HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
      return wire
    }
    try await until("both requests to reach the upstream") { upstream.requests("GET") == 2 }
    for _ in 0..<8 { #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).status == 502) }
    // The state goes on over a reload: what the old generation holds still counts, and is given back to it.
    daemon.signal(SIGHUP)
    try await daemon.logged("generation 2")
    for _ in 0..<4 { #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).status == 502) }
    gate.open()
    for wire in held { #expect(String(decoding: try wire.readToEnd(), as: UTF8.self).hasSuffix("ok")) }
    for _ in 0..<4 { #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).status == 200) }
    #expect(upstream.requests("GET") == 6)
  }
}

/// Holds threads until it opens, for a minute at most.
private final class Gate: Sendable {
  private let semaphore = DispatchSemaphore(value: 0)
  func wait() { _ = semaphore.wait(timeout: .now() + 60) }
  func open() { for _ in 0..<8 { semaphore.signal() } }
}
