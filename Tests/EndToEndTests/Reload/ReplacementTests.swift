import Foundation
import Glibc
import TestSupport
import Testing

/// USR2, and listening sockets that come from systemd's store.
@Suite(.staged) struct `Sockets that outlive the process` {
  private static let request = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"

  private func process(_ scene: Scene) -> pid_t? {
    pid_t(scene.text("sallyport.pid").trimmingCharacters(in: .whitespacesAndNewlines))
  }

  /// Waits for the process that has replaced `former`, and ends it with the scene.
  private func successor(_ scene: Scene, of former: pid_t) async throws -> pid_t {
    let fresh = try await waiting(for: "the pid file of the new process") {
      process(scene).flatMap { $0 == former ? nil : $0 }
    }
    scene.atEnd { kill(fresh, SIGKILL) }
    return fresh
  }

  @Test(arguments: [1, 2]) func `USR2 replaces the process, and no request, connection or tunnel is lost`(
    workers: Int
  ) async throws {
    let scene = try Scene.ofTest()
    let go = Flag()
    let upstream = try ScriptedUpstream.holding(scene, until: go)
    let port = try scene.port()
    let path = scene.path("front.sock")
    func text(_ name: String) -> String {
      configuration(
        """
        server { listen 127.0.0.1:\(port); listen unix:\(path); location / { return 200 \(name); }
          location /held { proxy_pass http://127.0.0.1:\(upstream.port); } }
        """
      ).replacing("worker_processes 2", with: "worker_processes \(workers)")
    }
    let daemon = try await Sallyport.start(scene, text("one"))
    let (held, kept) = try (Wire.dial(port: port), Wire.dial(port: port))
    try held.write("GET /held HTTP/1.1\r\nHost: h\r\n\r\n")
    try await until("the request at the upstream") { upstream.requests("GET") == 1 }
    let first = try await offPool {
      try kept.write(Self.request)
      return try kept.response()
    }
    #expect(first.text == "one")

    try daemon.rewrite(text("two"))
    daemon.signal(SIGUSR2)
    let fresh = try await successor(scene, of: daemon.process.identifier)
    try await daemon.logged("process \(fresh) of the new binary serves: this one drains")
    // The former process still answers what it has. Its workers hear of the drain one after the other.
    let isClosed = try await offPool {
      for _ in 0..<1000 {
        try kept.write(Self.request)
        let response = try kept.response()
        #expect(response.text == "one")
        if response["Connection"]?.lowercased() == "close" { return try kept.isClosedByPeer() }
      }
      return false
    }
    #expect(isClosed)
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).text == "two")
    #expect(try await scene.curl(["--unix-socket", path, "http://h/"]).text == "two")
    #expect(daemon.process.ending == nil)
    go.raise()
    #expect(try await offPool { try held.response().text } == "held")
    #expect(try await daemon.process.ended() == .exited(0))
    // The end of the former one takes neither the pid file nor the unix socket's file.
    #expect(process(scene) == fresh)
    #expect(try await scene.curl(["--unix-socket", path, "http://h/"]).text == "two")
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).text == "two")

    // And once more, from the new process.
    try daemon.rewrite(text("three"))
    kill(fresh, SIGUSR2)
    let third = try await successor(scene, of: fresh)
    try await until("the second process to end") { kill(fresh, 0) != 0 }
    #expect(try await scene.curl(["--unix-socket", path, "http://h/"]).text == "three")
    kill(third, SIGQUIT)
    try await until("the third process to end") { kill(third, 0) != 0 }
    #expect(access(path, F_OK) != 0 && access(scene.path("sallyport.pid"), F_OK) != 0)
  }

  @Test func `a new binary that does not start leaves the old one serving, and may be tried again`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let text = configuration("server { listen 127.0.0.1:\(port); return 200 one; }")
    let daemon = try await Sallyport.start(scene, text)
    try daemon.rewrite(text + "nonsense;")
    daemon.signal(SIGUSR2)
    try await daemon.logged("[alert]", "the new binary did not start, this process serves on")
    try await until("the reason on stderr") { daemon.errors.contains("nonsense") }
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).text == "one")
    #expect(process(scene) == daemon.process.identifier)
    try daemon.rewrite(text.replacing("one", with: "two"))
    daemon.signal(SIGUSR2)
    let fresh = try await successor(scene, of: daemon.process.identifier)
    #expect(try await daemon.process.ended() == .exited(0))
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).text == "two")
    kill(fresh, SIGTERM)
    try await until("the new process to end") { kill(fresh, 0) != 0 }
  }

  /// systemd's restart would have stopped the old one before anything looked at the configuration.
  @Test func `reload --restart replaces the process, and a fault in the configuration leaves the old one`() async throws
  {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let path = scene.path("sallyport.conf")
    let text = configuration("server { listen 127.0.0.1:\(port); return 200 one; }")
    let daemon = try await Sallyport.start(scene, text)
    let old = daemon.process.identifier
    try daemon.rewrite(text + "nonsense;")
    for _ in 1...2 {
      let refused = try await scene.sallyport("reload", "--restart", "--config", path)
      #expect(refused.status == 1, "\(refused.everything)")
      #expect(
        refused.errors.hasPrefix("error: the new process did not start, process \(old) serves on: it ended before it"))
      #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).text == "one")
    }
    #expect(process(scene) == old)
    // A request in progress keeps the old process, which is no longer the one that serves.
    let held = try Wire.dial(port: port)
    try held.write("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n12")
    try daemon.rewrite(text.replacing("one", with: "two"))
    let replaced = try await scene.sallyport("reload", "--restart", "--config", path)
    let fresh = try #require(process(scene), "\(replaced.everything)")
    scene.atEnd { kill(fresh, SIGKILL) }
    #expect(replaced.status == 0 && replaced.text == "process \(fresh) serves in place of \(old)\n")
    #expect(fresh != old, "\(replaced.everything)")
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).text == "two")
    try held.write("345")
    #expect(try await offPool { try held.response().text } == "one")
    #expect(try await daemon.process.ended() == .exited(0))
    kill(fresh, SIGTERM)
    try await until("the new process to end") { kill(fresh, 0) != 0 }
    let absent = try await scene.sallyport("reload", "--restart", "--config", path)
    #expect(absent.status == 1 && absent.errors.contains("no process runs "), "\(absent.everything)")
    for arguments in [["reload", "4711", "--restart"], ["reload", "4711", "--config", path], ["reload", "-c", "-"]] {
      #expect(try await scene.run(Sallyport.binary(), arguments).status == 64, "\(arguments)")
    }
  }

  /// The new process has then the rights of the former one: as root that serves as root, no capability to set groups.
  @Test func `without the sandbox the process is replaced, too`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene, configuration("server { listen 127.0.0.1:\(port); return 200 one; }", main: "sandbox off;"))
    daemon.signal(SIGUSR2)
    let fresh = try await successor(scene, of: daemon.process.identifier)
    #expect(try await daemon.process.ended() == .exited(0))
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).text == "one")
    kill(fresh, SIGTERM)
    try await until("the new process to end") { kill(fresh, 0) != 0 }
  }

  @Test func `the new process notifies systemd only after it was named the main one`() async throws {
    let scene = try Scene.ofTest()
    let systemd = try NotifySocket(scene)
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene, configuration("server { listen 127.0.0.1:\(port); return 200 one; }"), environment: systemd.environment)
    try await systemd.heard("READY=1")
    let heard = systemd.datagrams.count
    daemon.signal(SIGUSR2)
    let fresh = try await successor(scene, of: daemon.process.identifier)
    #expect(try await daemon.process.ended() == .exited(0))
    try await systemd.heard("READY=1", after: heard)
    let later = systemd.datagrams.dropFirst(heard)
    #expect(later.first == "MAINPID=\(fresh)", "\(later)")
    #expect(!later.contains { $0.contains("STOPPING") })
  }

  /// systemd hands a stored socket over as it does one of a socket unit.
  @Test(arguments: [1, 2]) func `a stored socket is taken over with its queue`(workers: Int) async throws {
    let scene = try Scene.ofTest()
    let (port, other) = try (scene.port(), scene.port())
    let daemon = try Sallyport(
      scene,
      configuration(
        "server { listen 127.0.0.1:\(port); listen 127.0.0.1:\(other); return 200 hello; }"
      ).replacing("worker_processes 2", with: "worker_processes \(workers)"),
      launcher: ["systemd-socket-activate", "--fdname=sallyport.listen.127.0.0.1%3A\(port)", "-l", "127.0.0.1:\(port)"])
    // This connection comes before the process, and is served by it.
    let early = try await waiting(for: "systemd-socket-activate to listen") { try? Wire.dial(port: port) }
    let answer = try await offPool {
      try early.write(Self.request)
      return try early.response()
    }
    #expect(answer.status == 200)
    try await daemon.untilReady()
    #expect(try await scene.curl(["http://127.0.0.1:\(other)/"]).status == 200)
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: generation 2")
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).status == 200)
    daemon.signal(SIGQUIT)
    #expect(try await daemon.process.ended() == .exited(0))
  }

  /// A change of a `listen` to an address whose connections the former one took, too: from, to. PORT is the port.
  static let overlaps = [
    ("listen PORT;", "listen 127.0.0.1:PORT;"), ("listen 127.0.0.1:PORT;", "listen PORT;"),
    ("listen PORT;", "listen [::]:PORT ipv6only=off;"),
    ("listen PORT; listen [::]:PORT;", "listen [::]:PORT ipv6only=off;"),
    ("listen PORT;", "listen PORT; listen 127.0.0.1:PORT;"),
  ]

  private func overlapping(_ listen: String, _ port: UInt16, _ word: String, _ workers: Int) -> String {
    configuration("server { \(listen.replacing("PORT", with: "\(port)")) return 200 \(word); }")
      .replacing("worker_processes 2", with: "worker_processes \(workers)")
  }

  /// Asks with a new connection each time until the block says stop, and returns the answers that aren't whole.
  private func ask(_ port: UInt16, until ended: Flag) async throws -> (count: Int, faults: [String]) {
    try await offPool {
      var count = 0
      var faults: [String] = []
      while !ended.isRaised {
        do {
          let wire = try Wire.dial(port: port)
          try wire.write("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
          let answer = try wire.response()
          if answer.status != 200 { faults.append("\(answer.status)") }
          count += 1
        } catch { faults.append("\(error)") }
      }
      return (count, faults)
    }
  }

  private func overlapping(
    _ scene: Scene, _ listen: String, _ workers: Int
  ) async throws -> (port: UInt16, daemon: Sallyport, end: Flag) {
    let port = try scene.port()
    return (port, try await Sallyport.start(scene, overlapping(listen, port, "one", workers)), Flag())
  }

  @Test(arguments: overlaps, [1, 2])
  func `a reload to an address that overlaps the former one is taken, and loses no client`(
    change: (String, String), workers: Int
  ) async throws {
    let scene = try Scene.ofTest()
    let (port, daemon, end) = try await overlapping(scene, change.0, workers)
    async let asked = ask(port, until: end)
    for (generation, listen) in [(2, change.1), (3, change.0), (4, change.1)] {
      try daemon.rewrite(overlapping(listen, port, "g\(generation)", workers))
      daemon.signal(SIGHUP)
      try await daemon.logged("reconfigured: generation \(generation)")
      #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).text == "g\(generation)")
    }
    end.raise()
    let (count, faults) = try await asked
    #expect(count > 0 && faults.isEmpty, "\(faults)")
  }

  @Test(arguments: overlaps, [1, 2])
  func `USR2 to an address that overlaps the former one is taken, and loses no client`(
    change: (String, String), workers: Int
  ) async throws {
    let scene = try Scene.ofTest()
    let (port, daemon, end) = try await overlapping(scene, change.0, workers)
    async let asked = ask(port, until: end)
    try daemon.rewrite(overlapping(change.1, port, "two", workers))
    daemon.signal(SIGUSR2)
    let fresh = try await successor(scene, of: daemon.process.identifier)
    #expect(try await daemon.process.ended() == .exited(0))
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).text == "two")
    end.raise()
    let (count, faults) = try await asked
    #expect(count > 0 && faults.isEmpty, "\(faults)")
    kill(fresh, SIGTERM)
    try await until("the new process to end") { kill(fresh, 0) != 0 }
  }

  /// systemd's store has the sockets of the former configuration. A start that finds them in its way would fail for ever.
  @Test(arguments: [
    ("0.0.0.0", "listen 127.0.0.1:PORT;"), ("127.0.0.1", "listen PORT;"), ("0.0.0.0", "listen [::]:PORT ipv6only=off;"),
    ("0.0.0.0", "listen PORT; listen 127.0.0.1:PORT;"),
  ])
  func `a stored socket that no listener names stops no start, and who waits there is served`(
    former: String, listen: String
  ) async throws {
    let scene = try Scene.ofTest()
    let systemd = try NotifySocket(scene)
    let port = try scene.port()
    let daemon = try Sallyport(
      scene, overlapping(listen, port, "hello", 2),
      launcher: ["systemd-socket-activate", "--setenv=NOTIFY_SOCKET", "--setenv=FDSTORE"]
        + ["--fdname=sallyport.listen.\(former)%3A\(port)", "-l", "\(former):\(port)"],
      environment: systemd.environment.merging(["FDSTORE": "64"]) { $1 })
    let early = try await waiting(for: "systemd-socket-activate to listen") { try? Wire.dial(port: port) }
    try early.write(Self.request)
    // Reading what the process sends lets it go on: it waits until systemd has taken that.
    let isKept = listen.hasPrefix("listen PORT;") && former == "0.0.0.0"
    if !isKept { try await systemd.heard("FDSTOREREMOVE=1") }
    try await systemd.heard("READY=1")
    let answer = try await offPool { try early.response() }
    #expect(answer.status == 200 && answer.text == "hello")
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).text == "hello")
    daemon.signal(SIGQUIT)
    #expect(try await daemon.process.ended() == .exited(0))
  }

  @Test func `a start that finds its address in use says who has it`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let first = try await Sallyport.start(scene, overlapping("listen PORT;", port, "first", 1))
    let text = overlapping("listen 127.0.0.1:PORT;", port, "second", 1).replacing("pid sallyport.pid;", with: "")
    try scene.write("second.conf", text: Sallyport.withUser(text))
    let second = try await scene.sallyport("run", "--config", scene.path("second.conf"))
    #expect(second.status == 1, "\(second.everything)")
    #expect(
      second.errors.contains("process \(first.process.identifier) (sallyport) listens on 0.0.0.0:\(port)"),
      "\(second.errors)")
  }
}
