import Foundation
import TestSupport
import Testing

@Suite(.stagedAlone) struct `Connections on which the client is silent` {
  /// Kilobytes of the process that no other process shares.
  private func memory(of daemon: Sallyport) throws -> Int {
    let text = try String(contentsOfFile: "/proc/\(daemon.process.identifier)/smaps_rollup", encoding: .utf8)
    let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("Private_Dirty:") })
    return try #require(Int(line.filter(\.isNumber)))
  }

  @Test(arguments: [false, true]) func `cost at most 8 KiB each until the client's first byte, and then are served`(
    behindProxy: Bool
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene,
      configuration(
        """
        server { listen 127.0.0.1:\(port) ssl \(behindProxy ? "proxy_protocol" : ""); server_name localhost; \(Cast.tls)
          location / { return 200 ok; } }
        """
      ).replacing("worker_connections 256", with: "worker_connections 600").replacing(
        "worker_processes 2", with: "worker_processes 1"))
    let header = behindProxy ? "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n" : ""
    func fill(_ count: Int) throws -> [Wire] {
      try (0..<count).map { _ in
        let wire = try Wire.dial(port: port)
        try wire.write(header)
        return wire
      }
    }
    // Each has been accepted when a later one is served.
    func ask() async throws {
      let hello = cast.to(port) + cast.alice.curl + (behindProxy ? ["--haproxy-protocol"] : [])
      #expect(try await scene.curl(hello + ["https://localhost/"]).text == "ok")
    }
    let warm = try fill(50)
    try await ask()
    let before = try memory(of: daemon)
    let silent = try fill(500)
    try await ask()
    if !Sanitizer.isUsed { #expect(try memory(of: daemon) - before < 500 * 8) }
    warm.forEach { $0.close() }
    silent.forEach { $0.close() }
    try await ask()
  }
}
