import Crypto
import Glibc
import TestSupport
import Testing

@Suite(.staged) struct `sallyport health` {
  @Test func `is good while the process serves, and follows its generations`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let proxy = try await MutualProxy(
      scene, server: "} server { listen unix:\(scene.path("s.sock")); return 204;")
    let path = scene.path("sallyport.conf")
    let good = try await scene.sallyport("health", "--config", path)
    #expect(good.status == 0, "\(good.everything)")
    for words in [
      "ok      process: \(proxy.daemon.process.identifier) of user \(geteuid()), sallyport ", "configuration \(path)\n",
      "ok      generation: 1\n", "ok      workers: 2 of 2 answer\n",
      "ok      listener: 127.0.0.1:\(proxy.port) presents CN=localhost",
      "ok      listener: unix:\(scene.path("s.sock")) takes connections\n",
      "ok      certificate: server.pem is valid and ends in ",
    ] { #expect(good.text.contains(words), "\(words): \(good.text)") }
    // The file on disk is broken: that is not the process.
    try scene.write("sallyport.conf", text: "bogus;")
    #expect(try await scene.sallyport("health", "--config", path).status == 0)
    proxy.daemon.signal(SIGHUP)
    try await proxy.daemon.logged("the new configuration is refused")
    let refused = try await scene.sallyport("health", "--config", path)
    #expect(
      refused.status == 3 && refused.text.contains("WARN    reload: the last one was refused: "), "\(refused.text)")
    #expect(refused.text.contains("unknown directive \"bogus\""))
    // The configuration's folder by another name, and the folder of the command.
    #expect(symlink(scene.folder, scene.path("link")) == 0)
    #expect(try await scene.sallyport("health", "--config", scene.path("link/sallyport.conf")).status == 3)
    let json = try await scene.sallyport("health", "--json", "--live")
    #expect(
      json.status == 0
        && json.text.hasPrefix(#"{"healthy":true,"state":"good","process":\#(proxy.daemon.process.identifier),"#))
    #expect(!json.text.contains("listener"))
  }

  @Test func `is bad when no process runs, when it hangs, and when it ends`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let path = scene.path("sallyport.conf")
    let before = try await scene.sallyport("health", "--config", path)
    #expect(before.status == 1 && before.text == "FAILED  process: no process runs \(path)\n", "\(before.everything)")
    let daemon = try await Sallyport.start(
      scene, configuration("server { listen 127.0.0.1:\(port); return 204; }"))
    daemon.signal(SIGSTOP)
    let hung = try await scene.sallyport("health", "--config", path, "--timeout", "1")
    #expect(hung.status == 1 && hung.text.contains("does not answer within 1 s"), "\(hung.everything)")
    daemon.signal(SIGCONT)
    #expect(try await scene.sallyport("health", "--config", path).status == 0)
    daemon.signal(SIGQUIT)
    _ = try await daemon.process.ended()
    #expect(try await scene.sallyport("health", "--config", path).status == 1)
  }

  @Test func `sees an expired certificate, which --live leaves out`() async throws {
    let scene = try Scene.ofTest()
    let cast = try Cast(scene)
    var builder = CertificateBuilder(commonName: "old", .leaf([.serverAuth]), names: [.dns("localhost")])
    builder.notBefore -= 9_000
    builder.notAfter = builder.notBefore + 5_000
    _ = try scene.identity("server", builder.signed(by: cast.authority.root, key: .generate()))
    let port = try scene.port()
    _ = try await Sallyport.start(
      scene, configuration("server { listen 127.0.0.1:\(port) ssl; \(Cast.tls) return 204; }"))
    let path = scene.path("sallyport.conf")
    let bad = try await scene.sallyport("health", "--config", path)
    #expect(bad.status == 1 && bad.text.contains("FAILED  certificate: server.pem has expired"), "\(bad.everything)")
    #expect(try await scene.sallyport("health", "--config", path, "--live").status == 0)
  }

  @Test func `a listener with the PROXY protocol, and one without a server for strangers, are good`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let (one, two) = try (scene.port(), scene.port())
    let daemon = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(one) ssl proxy_protocol; \(Cast.tls) return 204; }
      server { listen 127.0.0.1:\(two) ssl; ssl_reject_handshake on; }
      """)
    let report = try await scene.sallyport("health", "--config", scene.path("sallyport.conf"))
    #expect(report.status == 0, "\(report.everything)")
    #expect(report.text.contains("127.0.0.1:\(one) presents CN=localhost"))
    #expect(report.text.contains("127.0.0.1:\(two) refuses handshakes without a known name"))
    #expect(!daemon.errorLog.contains("[error]"), "\(daemon.errorLog)")
  }

  /// Otherwise each question would be a line of the log, and a handshake that failed.
  @Test func `a listener that demands a certificate counts the question as nobody's failed handshake, and no session`()
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let upstream = try ScriptedUpstream.echo(scene)
    let (plain, secure, strict, refusing) = try (scene.port(), scene.port(), scene.port(), scene.port())
    let open = try scene.port()
    let daemon = try await Sallyport.start(
      scene,
      configuration(
        """
        server { listen 127.0.0.1:\(plain); location = /metrics { metrics; } }
        server { listen 127.0.0.1:\(strict) ssl; \(Cast.tls) ssl_verify_reject handshake; return 204; }
        server { listen 127.0.0.1:\(refusing) ssl; ssl_reject_handshake on; }
        """)
          + """
          stream { log_format short $status; access_log stream.log short;
            server { listen 127.0.0.1:\(secure) ssl; \(Cast.tls) proxy_pass 127.0.0.1:\(upstream.port); }
            server { listen 127.0.0.1:\(open) ssl; \(Cast.tls(verify: "off")) proxy_pass 127.0.0.1:\(upstream.port); } }
          """)
    func failures() async throws -> Double {
      let page = try PrometheusPage(try await scene.page(plain, "/metrics").text)
      return page.samples.filter { $0.name == "sallyport_client_handshake_failures_total" }.reduce(0) { $0 + $1.value }
    }
    let report = try await scene.sallyport("health", "--config", scene.path("sallyport.conf"))
    #expect(report.status == 0, "\(report.everything)")
    for port in [secure, strict] {
      #expect(report.text.contains("127.0.0.1:\(port) presents CN=localhost"), "\(report.text)")
    }
    // A stranger's handshake counts, and comes after those of the question on the same listeners.
    for port in [secure, strict] {
      _ = try await scene.curl(cast.to(port) + ["https://localhost/"])
    }
    try await until("the strangers' handshakes to be counted") { try await failures() >= 2 }
    #expect(try await failures() == 2)
    // In `stream` each session has a line, which is nobody's here.
    daemon.signal(SIGQUIT)
    _ = try await daemon.process.ended()
    #expect(scene.text("stream.log").split(separator: "\n").count == 1, "\(scene.text("stream.log"))")
    #expect(daemon.errorLog.ranges(of: "while SSL handshaking").count <= 2, "\(daemon.errorLog)")
  }

  @Test(arguments: [["--bogus"], ["--timeout", "0"], ["--timeout", "x"], ["more"]])
  func `a mistake in the command line has a status of its own`(words: [String]) async throws {
    let scene = try Scene.ofTest()
    let result = try await scene.run(Sallyport.binary(), ["health"] + words)
    #expect(result.status == 2 && result.errors.hasPrefix("error: "), "\(result.everything)")
  }

  /// He has bound the name before the process could, and says nothing.
  @Test(.enabled(if: geteuid() == 0, "only root becomes another user"))
  func `works though a stranger holds the name, and he is not asked`() async throws {
    let scene = try Scene.ofTest()
    let (port, path) = (try scene.port(), scene.path("sallyport.conf"))
    let program = """
      import hashlib, os, socket, sys, time
      root = os.stat('/')
      text = f'file\\0{root.st_dev}/{root.st_ino}\\0' + sys.argv[1]
      name = 'sallyport/health/' + hashlib.sha256(text.encode()).hexdigest()[:32]
      os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
      held = socket.socket(socket.AF_UNIX)
      held.bind('\\0' + name)
      held.listen(8)
      print('held', flush=True)
      while True: held.accept()[0].recv(1)
      """
    let stranger = try ChildProcess(
      "python3", ["-c", program, path], in: "/", output: scene.path("held"), errors: scene.path("held.errors"))
    scene.atEnd { stranger.stop() }
    try await until("the stranger to hold the name") { scene.text("held").contains("held") }
    let before = try await scene.sallyport("health", "--config", path, "--timeout", "1")
    #expect(before.status == 1 && before.text.contains("does not answer within 1 s"), "\(before.everything)")
    let daemon = try await Sallyport.start(
      scene, configuration("server { listen 127.0.0.1:\(port); return 204; }"))
    try await daemon.logged("can't ask this process by its usual name yet")
    let good = try await scene.sallyport("health", "--config", path)
    #expect(
      good.status == 0 && good.text.contains("process: \(daemon.process.identifier) of user 0"), "\(good.everything)")
  }

  /// Another user may neither ask nor answer.
  @Test(.enabled(if: geteuid() == 0, "only root becomes another user"))
  func `a stranger gets no answer, and gives none`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let path = scene.path("sallyport.conf")
    let daemon = try await Sallyport.start(
      scene, configuration("server { listen 127.0.0.1:\(port); return 204; }"))
    // The stranger runs a program of its own: the scene's folder and the binary may be closed to it.
    let ask = try await scene.run(
      "setpriv",
      ["--reuid", "65534", "--regid", "65534", "--clear-groups", Sallyport.binary(), "health", "--config", path])
    #expect(ask.status != 0 && !ask.text.contains("generation"), "\(ask.everything)")
    #expect(try await scene.sallyport("health", "--config", path).status == 0)
    daemon.signal(SIGTERM)
    _ = try await daemon.process.ended()
  }
}

@Suite(.staged) struct `A configuration from standard input` {
  private func run(_ scene: Scene, _ text: String, _ path: String) throws -> ChildProcess {
    let input = try scene.write("input", text: Sallyport.withUser(text))
    let process = try ChildProcess(
      Sallyport.binary(), ["run", "--config", path], in: scene.folder, input: .file(input),
      output: nil, errors: scene.path("stderr"))
    scene.atEnd { process.stop() }
    return process
  }

  @Test(arguments: ["-", "/dev/stdin"])
  func `serves, and keeps its text over a reload that takes new files`(path: String) async throws {
    let scene = try Scene.ofTest()
    let cast = try Cast(scene)
    let port = try scene.port()
    let process = try run(
      scene,
      configuration("server { listen 127.0.0.1:\(port) ssl; \(Cast.tls(verify: "off")) return 200 here; }")
        .replacing("ssl_client_certificate ca.pem; ", with: ""), path)
    let address = cast.to(port) + ["https://localhost/"]
    try await until("it serves") { try await scene.curl(address).text == "here" }
    #expect(scene.text("error.log").contains("configuration: standard input"))
    kill(process.identifier, SIGHUP)
    try await until("a reload") { scene.text("error.log").contains("reconfigured: generation 2") }
    #expect(scene.text("error.log").contains("standard input can't be read again"))
    #expect(try await scene.curl(address).text == "here")
  }

  @Test func `is checked, and its faults say stdin`() async throws {
    let scene = try Scene.ofTest()
    let input = try scene.write("input", text: "events {} http { bogus; }")
    let checked = try ChildProcess(
      Sallyport.binary(), ["check", "--config", "-"], in: scene.folder, input: .file(input),
      output: scene.path("stdout"), errors: nil)
    #expect(try await checked.ended() == .exited(1))
    #expect(scene.text("stdout").contains("stdin:1:18: error: unknown directive \"bogus\""), "\(scene.text("stdout"))")
  }

  @Test func `without --config, the file in the folder is taken`() async throws {
    let scene = try Scene.ofTest()
    let none = try await scene.sallyport("check")
    if access("/etc/sallyport/sallyport.conf", F_OK) != 0 {
      #expect(none.status == 1 && none.errors.contains("/etc/sallyport/sallyport.conf"), "\(none.everything)")
    }
    try scene.write(
      "sallyport.conf", text: Sallyport.withUser("events {} http { server { listen 8099; return 204; } }"))
    let found = try await scene.sallyport("check")
    #expect(found.status == 0 && found.text.contains("configuration ./sallyport.conf is valid"), "\(found.everything)")
  }
}
