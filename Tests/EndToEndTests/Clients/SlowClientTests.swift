import Foundation
import Glibc
import TestSupport
import Testing

/// slowhttptest holds hundreds of connections with slow heads (H), slow bodies (B) and slow reading (X).
@Suite(.staged, .enabled(if: access("/usr/bin/slowhttptest", X_OK) == 0, "slowhttptest is not installed"))
struct `Slow clients` {
  private static let seconds = 4

  @Test(arguments: ["H", "B", "X"], [false, true]) func `harm no verified client, and cost little`(
    mode: String, overTLS: Bool
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try scene.port(), plain = try scene.port(), slow = try scene.port()
    let upstream = try ScriptedUpstream.echo(scene)
    try scene.write("big.bin", text: String(repeating: "0123456789abcdef", count: 65_536))
    let places = """
      location / { return 200 ok; } location = /up { proxy_pass http://127.0.0.1:\(upstream.port); }
      location = /big.bin { root \(scene.folder); }
      """
    let daemon = try await Sallyport.start(
      scene,
      """
      worker_processes 1; error_log error.log info; pid sallyport.pid;
      events { worker_connections 1024; }
      http { access_log off;
        server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) \(places) }
        server { listen 127.0.0.1:\(slow) ssl; server_name localhost; \(Cast.tls(verify: "optional")) \(places) }
        server { listen 127.0.0.1:\(plain); \(places) location = /metrics { metrics; } } }
      """)
    func connections() async throws -> Double {
      try PrometheusPage(await scene.page(plain, "/metrics").text)
        .value("sallyport_client_connections") ?? 0
    }
    let target = overTLS ? "https://127.0.0.1:\(slow)" : "http://127.0.0.1:\(plain)"
    let path = ["H": "/", "B": "/up", "X": "/big.bin"][mode] ?? "/"
    let before = try Self.ticks(daemon), ended = Flag()
    async let run = scene.run(
      "slowhttptest",
      ["-\(mode)", "-c", "300", "-r", "200", "-i", "1", "-p", "3", "-l", "\(Self.seconds)", "-u", "\(target)\(path)"]
        + (mode == "X" ? ["-w", "16", "-y", "32", "-z", "8", "-n", "1"] : []))
    async let crowd: Double = {
      var most = 0.0
      while !ended.isRaised { most = max(most, try await connections()) }
      return most
    }()
    async let failures: [Int] = {
      var other: [Int] = []
      while !ended.isRaised {
        let status = try await scene.curl(cast.to(port) + cast.alice.curl + ["https://localhost/"]).status
        if status != 200 { other.append(status) }
      }
      return other
    }()
    let tool = try await run
    ended.raise()
    #expect(tool.everything.contains("Test ended"), "\(tool.everything)")
    #expect(try await failures == [])
    #expect(try await crowd > 100, "\(tool.everything)")
    // Half of the time would be a loop that spins. A tick is a hundredth of a second.
    if !Sanitizer.isUsed { #expect(try Self.ticks(daemon) - before < Self.seconds * 50) }
    // Only the connection that asks is left.
    try await until("the slow clients to be gone") { try await connections() == 1 }
    #expect(try await scene.curl(cast.to(port) + cast.alice.curl + ["https://localhost/"]).status == 200)
  }

  /// The processor time of the daemon (utime and stime of proc(5)).
  private static func ticks(_ daemon: Sallyport) throws -> Int {
    let text = try String(contentsOfFile: "/proc/\(daemon.process.identifier)/stat", encoding: .utf8)
    let words = (text.split(separator: ")").last ?? "").split(separator: " ")
    return words.dropFirst(11).prefix(2).compactMap { Int($0) }.reduce(0, +)
  }
}
