import Glibc
import TestSupport
import Testing

/// `access_log` with variables: one file for each name, below one folder.
@Suite(.staged) struct `Access logs that requests name` {
  private func serve(_ scene: Scene, _ log: String, main: String = "") async throws -> (daemon: Sallyport, port: UInt16)
  {
    let port = try scene.port()
    try scene.makeFolder("logs")
    let daemon = try await Sallyport.start(
      scene, main + configuration("server { listen 127.0.0.1:\(port); \(log) return 204; }"))
    return (daemon, port)
  }

  @Test func `each host has its own file, and USR1 opens it anew`() async throws {
    let scene = try Scene.ofTest()
    let (daemon, port) = try await serve(
      scene, "access_log logs/$host.log combined; open_log_file_cache max=10 valid=1h;")
    func ask(_ host: String, _ path: String) async throws {
      let answer = try await scene.curl(["-H", "Host: \(host)", "http://127.0.0.1:\(port)/\(path)"])
      #expect(answer.status == 204)
    }
    try await ask("a.test", "one")
    try await ask("b.test", "two")
    try await until("the lines of both hosts") {
      scene.text("logs/a.test.log").contains("GET /one ") && scene.text("logs/b.test.log").contains("GET /two ")
    }
    #expect(!scene.text("logs/a.test.log").contains("/two"))
    #expect(rename(scene.path("logs/a.test.log"), scene.path("logs/a.test.log.1")) == 0)
    daemon.signal(SIGUSR1)
    try await until("a line in the new file") {
      try await ask("a.test", "three")
      return scene.text("logs/a.test.log").contains("GET /three ")
    }
    #expect(scene.text("logs/a.test.log.1").contains("GET /one "))
    daemon.signal(SIGTERM)
    #expect(try await daemon.process.ended() == .exited(0))
  }

  @Test func `a client can't choose a file outside, and the request is in the error log`() async throws {
    let scene = try Scene.ofTest()
    let (daemon, port) = try await serve(scene, "access_log logs/$http_x_file combined;")
    for value in ["../escaped", "/etc/escaped", "..", "."] {
      #expect(try await scene.curl(["-H", "X-File: \(value)", "http://127.0.0.1:\(port)/x"]).status == 204)
      try await daemon.logged(
        "[error]", "the name of an access log would leave its folder: \"\(value)\", client: 127.0.0.1",
        "request: \"GET /x HTTP/1.1\"")
    }
    #expect(symlink(scene.path("linked"), scene.path("logs/link")) == 0)
    #expect(try await scene.curl(["-H", "X-File: link", "http://127.0.0.1:\(port)/x"]).status == 204)
    try await daemon.logged("[crit]", "the log logs/$http_x_file loses lines: ")
    #expect(access(scene.path("escaped"), F_OK) != 0 && access(scene.path("linked"), F_OK) != 0)
  }

  @Test func `a folder that isn't there stops the start`() async throws {
    let scene = try Scene.ofTest()
    let path = try scene.write(
      "x.conf",
      text: configuration("server { listen 127.0.0.1:\(scene.port()); access_log none/$host.log; return 204; }"))
    let result = try await scene.sallyport("run", "--config", path)
    #expect(
      result.status != 0 && result.everything.contains("the folder of the log none/$host.log"), "\(result.everything)")
  }
}
