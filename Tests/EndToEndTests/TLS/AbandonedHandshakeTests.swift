import Foundation
import TestSupport
import Testing

@Suite(.staged) struct `Abandoned handshakes` {
  /// Handshakes for each step: SALLYPORT_ABANDONED, or few enough for each run of the suite.
  private static let count = ProcessInfo.processInfo.environment["SALLYPORT_ABANDONED"].flatMap { Int($0) } ?? 600

  private struct Result: Decodable {
    let steps: [String: Int]
    let done: [String: Int]
  }

  @Test func `leave no descriptor, no memory and few lines, and no request of a verified client fails`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    _ = try Cast(scene)
    let daemon = try await Sallyport.start(
      scene,
      """
      worker_processes 1; error_log error.log info; pid sallyport.pid;
      events { worker_connections 1024; }
      http { access_log off;
        # Kept sessions take memory, too, up to the cache's bound.
        ssl_session_cache off;
        server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) location / { return 200 ok; } } }
      """)
    func flood(_ count: Int) async throws {
      let run = try await scene.python(.abandon, "\(port)", scene.folder, "\(count)", within: .seconds(60 + count / 10))
      let result = try JSONDecoder().decode(Result.self, from: Data(run.text.utf8))
      #expect(result.steps == ["0": count, "1": count, "2": count, "3": count])
      #expect(Set(result.done.keys) == ["ok"], "\(result.done)")
    }
    func descriptors() throws -> Int {
      try FileManager.default.contentsOfDirectory(atPath: "/proc/\(daemon.process.identifier)/fd").count
    }
    // The first flood makes what stays: buffers, tables, pages of the allocator. The second must not add to it.
    try await flood(Self.count)
    let memory = try #require(daemon.memory("VmRSS")), open = try descriptors()
    try await flood(Self.count)
    try await until("descriptors to be closed") { try descriptors() <= open }
    if !Sanitizer.isUsed {
      try await until("memory to be back") { (daemon.memory("VmRSS") ?? .max) <= memory + 8 * 1024 }
    }
    let lines = daemon.errorLog.split(separator: "\n").filter { $0.contains("handshak") }
    // Five of failed handshakes and five of clients that waited for their turn, and the sums behind both.
    #expect(!lines.isEmpty && lines.count <= 16, "\(lines.joined(separator: "\n"))")
  }
}
