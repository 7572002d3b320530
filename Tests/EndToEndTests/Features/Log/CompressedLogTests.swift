import Glibc
import TestSupport
import Testing

/// `access_log … gzip`, beside nginx.
@Suite(.staged) struct `A compressed access log` {
  @Test func `is what zcat reads, line by line as nginx writes it`() async throws {
    let scene = try Scene.ofTest(), (ours, theirs) = try (scene.port(), scene.port())
    func http(_ port: UInt16, _ name: String) -> String {
      """
      log_format own '$request_uri $status $http_long';
      server { listen 127.0.0.1:\(port);
        location / { return 204; access_log \(scene.path("\(name).full.gz")) own gzip=9 buffer=1k; }
        location /x { return 204; access_log \(scene.path("\(name).rest.gz")) own gzip; } }
      """
    }
    _ = try await NginxUpstream.start(scene, ports: [theirs], http(theirs, "theirs"))
    let daemon = try await Sallyport.start(
      scene, configuration(http(ours, "ours")).replacing("worker_processes 2", with: "worker_processes 1"))
    let long = String(repeating: "x", count: 300)
    for port in [ours, theirs] {
      for number in 1...12 {
        _ = try await scene.curl(["-H", "Long: \(long)", "http://127.0.0.1:\(port)/\(number)"])
        _ = try await scene.curl(["http://127.0.0.1:\(port)/x\(number)"])
      }
    }
    // When logs are reopened, what the last buffers hold is written.
    daemon.signal(SIGUSR1)
    let nginx = scene.text("nginx/nginx.pid").split(whereSeparator: \.isWhitespace).first.flatMap { pid_t($0) }
    try #require(kill(#require(nginx), SIGUSR1) == 0)
    func lines(_ name: String) async throws -> [Substring] {
      try await scene.run("zcat", [scene.path("\(name).gz")]).text.split(separator: "\n")
    }
    for name in ["full", "rest"] {
      for name in ["ours.\(name)", "theirs.\(name)"] {
        try await until("\(name) to be written") { try await lines(name).count == 12 }
      }
      #expect(try await lines("ours.\(name)") == lines("theirs.\(name)"))
    }
    #expect(scene.bytes("ours.full.gz").count < 2000)
  }
}
