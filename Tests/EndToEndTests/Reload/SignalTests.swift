import Glibc
import TestSupport
import Testing

@Suite(.staged) struct `Signals and the process` {
  /// An upstream that answers each request once the flag is up.
  private func refuses(_ port: UInt16) -> Bool {
    do { _ = try Wire.dial(port: port) } catch WireError.system("connect", ECONNREFUSED) { return true } catch {}
    return false
  }

  @Test func `QUIT lets exchanges end, takes no new ones, and ends with 0`() async throws {
    let scene = try Scene.ofTest()
    let go = Flag()
    let upstream = try ScriptedUpstream.holding(scene, until: go)
    let proxy = try await PlainProxy(scene, to: upstream.port)
    let (busy, idle) = try (Wire.dial(port: proxy.port), Wire.dial(port: proxy.port))
    try busy.write("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    try await until("the request at the upstream") { upstream.requests("GET") == 1 }
    proxy.daemon.signal(SIGQUIT)
    try await proxy.daemon.logged("[notice]", "gracefully shutting down")
    try await until("the port to be closed") { refuses(proxy.port) }
    #expect(try await offPool { try idle.isClosedByPeer() })
    #expect(proxy.daemon.process.ending == nil)
    go.raise()
    let (answer, closed) = try await offPool { (try busy.response(), try busy.isClosedByPeer()) }
    #expect(answer.status == 200 && answer.text == "held" && closed)
    #expect(answer["Connection"]?.lowercased() == "close")
    #expect(try await proxy.daemon.process.ended() == .exited(0))
    #expect(access(scene.path("sallyport.pid"), F_OK) != 0)
    try await proxy.daemon.logged("[notice]", "exit")
  }

  @Test func `worker_shutdown_timeout bounds the drain`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in while try !wire.readSome().isEmpty {} }
    let port = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
      "server { listen 127.0.0.1:\(port); location / { proxy_pass http://127.0.0.1:\(upstream.port); } }",
      main: "worker_shutdown_timeout 200ms;")
    let client = try Wire.dial(port: port)
    try client.write("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    try await until("the request at the upstream") { upstream.requests("GET") == 1 }
    daemon.signal(SIGQUIT)
    #expect(try await daemon.process.ended() == .exited(0))
    #expect(try await offPool { try client.isClosedByPeer() })
  }

  /// A client whose request is at an upstream that never answers.
  private func unanswered(_ scene: Scene) async throws -> (PlainProxy, Wire) {
    let upstream = try ScriptedUpstream(scene) { wire, _ in while try !wire.readSome().isEmpty {} }
    let proxy = try await PlainProxy(scene, to: upstream.port)
    let client = try Wire.dial(port: proxy.port)
    try client.write("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    try await until("the request at the upstream") { upstream.requests("GET") == 1 }
    return (proxy, client)
  }

  @Test(arguments: [SIGTERM, SIGINT]) func `TERM and INT stop at once, with 0`(signal: Int32) async throws {
    let scene = try Scene.ofTest()
    let (proxy, client) = try await unanswered(scene)
    proxy.daemon.signal(signal)
    #expect(try await proxy.daemon.process.ended() == .exited(0))
    #expect(try await offPool { try client.isClosedByPeer() })
    #expect(access(scene.path("sallyport.pid"), F_OK) != 0)
  }

  @Test func `TERM cuts a drain short`() async throws {
    let scene = try Scene.ofTest()
    let (proxy, client) = try await unanswered(scene)
    proxy.daemon.signal(SIGQUIT)
    try await proxy.daemon.logged("gracefully shutting down")
    proxy.daemon.signal(SIGTERM)
    #expect(try await proxy.daemon.process.ended() == .exited(0))
    #expect(try await offPool { try client.isClosedByPeer() })
  }

  @Test func `HUP takes up a good configuration, and exchanges under way end by the old one`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let go = Flag()
    let upstream = try ScriptedUpstream.holding(scene, until: go)
    let (kept, dropped, added, tls) = try (scene.port(), scene.port(), scene.port(), scene.port())
    func text(_ name: String, _ other: UInt16) -> String {
      configuration(
        """
        server { listen 127.0.0.1:\(kept); listen 127.0.0.1:\(other);
          location / { add_header X-Generation \(name) always; return 200 \(name); }
          location /held { add_header X-Generation \(name) always; proxy_pass http://127.0.0.1:\(upstream.port); } }
        server { listen 127.0.0.1:\(tls) ssl; server_name localhost; \(Cast.tls) return 200 \(name); }
        """)
    }
    let daemon = try await Sallyport.start(scene, text("one", dropped))
    let (client, idle) = try (Wire.dial(port: kept), Wire.dial(port: kept))
    try client.write("GET /held HTTP/1.1\r\nHost: h\r\n\r\n")
    let first = try await offPool {
      try idle.write("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
      return try idle.response()
    }
    #expect(first.text == "one")
    try await until("the request at the upstream") { upstream.requests("GET") == 1 }

    // The certificate's file changes too: the same name, another CA.
    let other = try TestAuthority("Other")
    _ = try scene.identity("server", other.server())
    try scene.anchors("other", other)
    try daemon.rewrite(text("two", added))
    daemon.signal(SIGHUP)
    try await daemon.logged("[notice]", "reconfigured: generation 2")
    #expect(try await scene.curl(["http://127.0.0.1:\(kept)/"]).text == "two")
    #expect(try await scene.curl(["http://127.0.0.1:\(added)/"]).text == "two")
    #expect(refuses(dropped))
    let renewed = try await scene.curl(
      ["--cacert", scene.path("other.pem"), "--connect-to", "::127.0.0.1:\(tls)"] + cast.alice.curl
        + ["https://localhost/"])
    #expect(renewed.status == 200 && renewed.text == "two", "\(renewed.errors)")
    // Who was idle goes on under the new one, whoever waited is answered by the generation that took the request.
    let second = try await offPool {
      try idle.write("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
      return try idle.response()
    }
    #expect(second.text == "two" && second["X-Generation"] == "two")
    go.raise()
    let held = try await offPool { try client.response() }
    #expect(held.text == "held" && held["X-Generation"] == "one")
    #expect(scene.text("sallyport.pid") == "\(daemon.process.identifier)\n")
  }

  @Test func `HUP with a broken configuration changes nothing and says why`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let port = try scene.port()
    func text(_ more: String) -> String {
      configuration("server {\n listen 127.0.0.1:\(port) ssl; \(Cast.tls)\n return 200 old; }\n\(more)")
    }
    let daemon = try await Sallyport.start(scene, text(""))
    let client = try Wire.dial(port: port)
    for (fault, reason) in [
      ("nonsense on;", "unknown directive \"nonsense\""),
      ("server { listen 127.0.0.1:\(port); listen 127.0.0.1:1 ssl; }", "ssl_certificate"),
      (
        "server { listen 127.0.0.1:\(try scene.port()) ssl; ssl_certificate gone.pem; ssl_certificate_key server.key; }",
        "gone.pem"
      ),
      ("error_log missing/folder/error.log; server { }", "missing/folder"),
    ] {
      let before = daemon.errorLog.count
      try daemon.rewrite(text(fault))
      daemon.signal(SIGHUP)
      let line = try await waiting(for: "the refusal of \(fault)") {
        String(daemon.errorLog.dropFirst(before)).split(separator: "\n").first { $0.contains("is refused") }
      }
      #expect(line.contains("[emerg]") && line.contains("generation 1 serves on"))
      let said = String(daemon.errorLog.dropFirst(before)).split(separator: "\n")
      #expect(said.contains { $0.contains("[emerg]") && $0.contains(reason) }, "\(fault)")
      #expect(fault.contains("missing/folder") || said.contains { $0.contains("sallyport.conf:") }, "\(fault)")
    }
    // Neither the listener nor a connection of the old generation was touched.
    let cast = ["--cacert", scene.path("ca.pem"), "--connect-to", "::127.0.0.1:\(port)"]
    let answer = try await scene.curl(
      cast + ["--cert", scene.path("alice.pem"), "--key", scene.path("alice.key"), "https://localhost/"])
    #expect(answer.status == 200 && answer.text == "old", "\(answer.errors)")
    try client.write("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    #expect(try await offPool { try client.response().status } == 400)
    // And a good one is taken up after all.
    try daemon.rewrite(text("").replacing("old", with: "new"))
    daemon.signal(SIGHUP)
    try await daemon.logged("[notice]", "reconfigured: generation 2")
  }

  @Test func `HUP says what only a restart changes`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let text = configuration("server { listen 127.0.0.1:\(port); return 200 x; }")
    let daemon = try await Sallyport.start(scene, text)
    try daemon.rewrite(text.replacing("worker_processes 2", with: "worker_processes 3"))
    daemon.signal(SIGHUP)
    try await daemon.logged("[warn]", "worker_processes is taken at start")
    try await daemon.logged("reconfigured: generation 2, 2 workers")
  }

  @Test func `USR1 reopens the logs`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene,
      configuration(
        """
        log_format short '$uri'; access_log access.log short; access_log held.log short buffer=64k flush=1h;
        server { listen 127.0.0.1:\(port); return 200 x; }
        """
      ).replacing("access_log access.log;", with: ""))
    _ = try await scene.curl(["http://127.0.0.1:\(port)/before"])
    try await until("its line") { scene.text("access.log") == "/before\n" }
    for name in ["access.log", "held.log", "error.log"] {
      rename(scene.path(name), scene.path("\(name).1"))
    }
    daemon.signal(SIGUSR1)
    try await until("the new files") {
      ["access.log", "held.log", "error.log"].allSatisfy { access(scene.path($0), F_OK) == 0 }
    }
    _ = try await scene.curl(["http://127.0.0.1:\(port)/after"])
    try await until("its line in the new file") { scene.text("access.log") == "/after\n" }
    #expect(scene.text("access.log.1") == "/before\n")
    // What was held back belongs to the old file.
    #expect(scene.text("held.log.1") == "/before\n")
    #expect(scene.text("error.log.1").contains("reopening logs"))
    daemon.signal(SIGTERM)
    #expect(try await daemon.process.ended() == .exited(0))
    #expect(scene.text("held.log") == "/after\n")
    #expect(scene.text("error.log").contains("exit"))
  }

  @Test func `HUP makes logs anew that were moved away or removed, and leaves the others`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene,
      configuration(
        """
        log_format short '$uri'; access_log access.log short; access_log whole.log short;
        server { listen 127.0.0.1:\(port); return 200 x; }
        """
      ).replacing("access_log access.log;", with: ""))
    _ = try await scene.curl(["http://127.0.0.1:\(port)/before"])
    try await until("its line") { scene.text("access.log") == "/before\n" }
    rename(scene.path("access.log"), scene.path("access.log.1"))
    unlink(scene.path("error.log"))
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: generation 2")
    _ = try await scene.curl(["http://127.0.0.1:\(port)/after"])
    try await until("its line in the new file") { scene.text("access.log") == "/after\n" }
    try await until("its line in the other") { scene.text("whole.log") == "/before\n/after\n" }
    #expect(scene.text("access.log.1") == "/before\n")
  }

  @Test func `a second instance is refused and leaves the first alone`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let text = configuration("server { listen 127.0.0.1:\(port); return 200 first; }")
    let first = try await Sallyport.start(scene, text)
    let second = try await scene.sallyport("run", "--config", scene.path("sallyport.conf"))
    #expect(second.status == 1)
    #expect(second.errors.contains("127.0.0.1:\(port)") && second.errors.contains("98"), "\(second.errors)")
    #expect(scene.text("sallyport.pid") == "\(first.process.identifier)\n")
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).text == "first")
  }

  @Test func `a start that fails says all that is wrong, and leaves no pid file`() async throws {
    let scene = try Scene.ofTest()
    let result = try await scene.run(
      Sallyport.binary(),
      [
        "run", "--config",
        scene.write(
          "bad.conf",
          text: configuration(
            "server { listen 127.0.0.1:1 ssl; ssl_certificate none.pem; ssl_certificate_key none.key;\n"
              + "location / { proxy_pass https://127.0.0.1:2; } location / { return 200; } }")),
      ])
    #expect(result.status == 78 && result.output.isEmpty)
    #expect(result.errors.split(separator: "\n").count { $0.contains("bad.conf:") && $0.contains("error:") } >= 2)
    #expect(access(scene.path("sallyport.pid"), F_OK) != 0)
  }

  @Test func `names are relative to the configuration's folder, and error_log is there from the start`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let port = try scene.port()
    try scene.makeFolder("elsewhere")
    try scene.write("part.conf", text: "server { listen 127.0.0.1:\(port) ssl; \(Cast.tls) return 200 x; }")
    let daemon = try Sallyport(
      scene, configuration("include pa*.conf;", level: "crit"),
      launcher: ["env", "-C", scene.path("elsewhere")])
    try await daemon.untilReady()
    #expect(access(scene.path("error.log"), F_OK) == 0 && scene.text("error.log").isEmpty)
    #expect(scene.text("sallyport.pid") == "\(daemon.process.identifier)\n")
  }

  /// Code and constants stay in the kernel's cache, and come back from there when they are needed.
  @Test(.disabled(if: Sanitizer.isUsed, "a sanitizer's code is needed always"))
  func `the code that only a start needs is not in the process's memory`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    let daemon = try await Sallyport.start(scene, configuration("server { listen 127.0.0.1:\(port); return 200 x; }"))
    func sizes() async throws -> (all: Int, resident: Int) {
      let maps = try await scene.succeed("cat", "/proc/\(daemon.process.identifier)/smaps").split(separator: "\n")
      let start = try #require(maps.firstIndex { $0.contains(" r-xp ") && $0.hasSuffix("/sallyport") })
      func value(_ name: String) -> Int {
        maps[start...].first { $0.hasPrefix("\(name):") }.flatMap { Int($0.split(separator: " ")[1]) } ?? 0
      }
      return (value("Size"), value("Rss"))
    }
    try await until("the code has left") {
      let found = try await sizes()
      return found.resident < found.all / 3
    }
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).text == "x")
  }

  @Test(arguments: [("", UInt64(0)), ("worker_rlimit_core 4k;", 4096)])
  func `no core is left unless one is asked for`(line: String, soft: UInt64) async throws {
    // What the daemon is started with allows them. Below sudo, which allows none, none can be asked for.
    var allowed = rlimit()
    let core = __rlimit_resource_t(RLIMIT_CORE.rawValue)
    try #require(getrlimit(core, &allowed) == 0)
    allowed.rlim_cur = allowed.rlim_max
    try #require(setrlimit(core, &allowed) == 0)
    let scene = try Scene.ofTest(), port = try scene.port()
    let daemon = try await Sallyport.start(
      scene, "\(line)\n" + configuration("server { listen 127.0.0.1:\(port); return 200 x; }"))
    let limits = try await scene.succeed("cat", "/proc/\(daemon.process.identifier)/limits")
    let said = try #require(limits.split(separator: "\n").first { $0.hasPrefix("Max core file size") })
    #expect(said.split(separator: " ")[4] == "\(min(soft, UInt64(allowed.rlim_max)))")
  }
}
