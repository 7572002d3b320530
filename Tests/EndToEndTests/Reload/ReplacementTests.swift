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
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { _ in
        go.wait()
        try wire.answer("held")
      }
    }
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
    for arguments in [["reload"], ["reload", "4711", "--restart"], ["reload", "4711", "--config", path]] {
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
}
