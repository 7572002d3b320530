import Glibc
import TestSupport
import Testing

/// How many files the daemon may have open, by what it is started with. No test needs a hard limit above 1024.
@Suite(.staged) struct `The limit of open files` {
  private func soft(_ daemon: Sallyport) async throws -> Int? {
    let limits = try await Scene.ofTest().succeed("cat", "/proc/\(daemon.process.identifier)/limits")
    return limits.split(separator: "\n").first { $0.hasPrefix("Max open files") }
      .flatMap { Int($0.split(separator: " ")[3]) }
  }

  /// One worker with 512 connections, and so many access logs.
  private func text(_ scene: Scene, logs: Int = 1, main: String = "") throws -> String {
    let lines = (0..<logs).map { "access_log logs/\($0).log;" }.joined(separator: " ")
    try scene.makeFolder("logs")
    return configuration(
      "server { listen 127.0.0.1:\(try scene.port()); return 200 x; \(lines) }", main: main
    ).replacing("worker_connections 256;", with: "worker_connections 512;")
      .replacing("worker_processes 2;", with: "worker_processes 1;")
  }

  @Test(arguments: [1, 200]) func `the soft one is raised to what connections, logs and a reload need, without a word`(
    logs: Int
  ) async throws {
    let scene = try Scene.ofTest()
    let daemon = try Sallyport(scene, text(scene, logs: logs), launcher: ["prlimit", "--nofile=64:"])
    try await daemon.untilReady()
    #expect(daemon.errors.isEmpty, "\(daemon.errors)")
    let soft = try #require(try await soft(daemon))
    #expect(soft >= 512 + logs + 64 && soft <= 1024)
  }

  /// Otherwise a worker stands still for some 17 ms each time that the table doubles.
  @Test func `the kernel's table of descriptors has its size before the first connection`() async throws {
    let scene = try Scene.ofTest()
    let daemon = try Sallyport(scene, text(scene))
    try await daemon.untilReady()
    let status = try await scene.succeed("cat", "/proc/\(daemon.process.identifier)/status")
    let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("FDSize:") })
    let size = try #require(line.split(whereSeparator: \.isWhitespace).last.flatMap { Int($0) })
    #expect(size > 512, "\(line)")
  }

  @Test func `where the hard one is not enough, it is used up and the start says so`() async throws {
    let scene = try Scene.ofTest()
    let daemon = try Sallyport(scene, text(scene), launcher: ["prlimit", "--nofile=64:300"])
    try await daemon.untilReady()
    #expect(try await soft(daemon) == 300)
    #expect(daemon.errors.contains("512 worker_connections exceed open file resource limit: 300"))
    #expect(daemon.errors.contains("hint: it is the hard limit"), "\(daemon.errors)")
  }

  @Test func `a worker that lacks connections by it says so, and not that worker_connections are not enough`()
    async throws
  {
    let scene = try Scene.ofTest(), port = try scene.port()
    let text = """
      worker_processes 1; error_log error.log warn; pid sallyport.pid; events { worker_connections 512; }
      http { access_log off; server { listen 127.0.0.1:\(port); return 200 x; } }
      """
    let daemon = try Sallyport(scene, text, launcher: ["prlimit", "--nofile=128:128"])
    try await daemon.untilReady()
    // The start's warning is in the log, too.
    let start = try await daemon.logged("[warn]", "512 worker_connections exceed open file resource limit: 128")
    let each = try #require(start.firstMatch(of: /each worker takes (\d+)/).flatMap { Int($0.1) })
    try await offPool {
      let wires = try (0..<each + 8).map { _ in
        let wire = try Wire.dial(port: port)
        try wire.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        return wire
      }
      for wire in wires { wire.close() }
    }
    try await daemon.logged("\(each) connections, all that the limit of open files leaves a worker, are not enough")
    #expect(!daemon.errorLog.contains("worker_connections are not enough"))
  }

  @Test func `worker_rlimit_nofile is what it says, or the hard limit where that can't be raised`() async throws {
    let scene = try Scene.ofTest()
    let daemon = try Sallyport(
      scene, text(scene, main: "worker_rlimit_nofile 700;"), launcher: ["prlimit", "--nofile=300:1024"])
    try await daemon.untilReady()
    #expect(try await soft(daemon) == 700 && daemon.errors.isEmpty)
    daemon.signal(SIGTERM)
    _ = try await daemon.process.ended()
    unlink(scene.path("sallyport.pid"))

    // Without CAP_SYS_RESOURCE, which who is not root has not got anyway.
    let rights = geteuid() == 0 ? ["setpriv", "--bounding-set=-sys_resource", "--inh-caps=-all"] : []
    let bound = try Sallyport(
      scene, text(scene, main: "worker_rlimit_nofile 9000;"), name: "sallyport",
      launcher: ["prlimit", "--nofile=300:1024"] + rights)
    try await bound.untilReady()
    #expect(try await soft(bound) == 1024)
    #expect(
      bound.errors.contains("setrlimit(RLIMIT_NOFILE, 9000) failed (1: Operation not permitted); the limit is 1024"))
  }
}
