import Foundation
import Glibc
import TestSupport
import Testing

@Suite(.staged) struct `Turns of HTTP 2 connections` {
  /// The order in which requests begin is that of their lines in the error log.
  @Test func `a burst of requests over several connections does not keep another client waiting`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let text = configuration(
      """
      server {
        listen 127.0.0.1:\(port); http2 on; server_name localhost; rewrite_log on;
        location /burst { rewrite ^ /burst; return 200 burst; }
        location /one { rewrite ^ /one; return 200 one; }
      }
      """
    ).replacing("worker_processes 2", with: "worker_processes 1")
    let daemon = try await Sallyport.start(scene, text)
    let response = try await scene.talk(port) { one in
      let wires = try (0..<4).map { _ in try Wire.dial(port: port) }
      defer { for wire in wires { wire.close() } }
      let clients = try wires.map { wire in
        let client = FrameClient(wire)
        try client.begin()
        return client
      }
      // The worker finds the requests of all clients at once.
      daemon.signal(SIGSTOP)
      // A thread that still runs would begin a part of them before the last one is sent.
      let tasks = "/proc/\(daemon.process.identifier)/task"
      while try FileManager.default.contentsOfDirectory(atPath: tasks).contains(where: {
        !((try? String(contentsOfFile: "\(tasks)/\($0)/stat", encoding: .utf8))?.contains(") T ") ?? true)
      }) { usleep(1000) }
      for client in clients { client.send((0..<100).map { .get(2 * $0 + 1, "/burst") }) }
      try one.write("GET /one HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
      daemon.signal(SIGCONT)
      for client in clients {
        for stream in stride(from: UInt32(1), to: 200, by: 2) where try client.response(on: stream).text != "burst" {
          return "stream \(stream) has another response"
        }
      }
      return String(decoding: try one.readToEnd(), as: UTF8.self)
    }
    #expect(response.hasSuffix("one"), "\(response)")
    let begun = { daemon.errorLog.split(separator: "\n").filter { $0.contains("rewritten data") } }
    try await until("the lines of all requests") { begun().count >= 401 }
    let before = begun().firstIndex { $0.contains(#""/one""#) }
    #expect((before ?? .max) <= 128, "\(before ?? -1) requests began first")
  }
}
