import Glibc
import TestSupport
import Testing

/// A daemon of one worker, with a plain listener, in front of upstreams that speak HTTP/2.
struct FramedProxy: Sendable {
  let daemon: Sallyport
  let port: UInt16
  let scene: Scene

  init(
    _ scene: Scene, to upstreams: UpstreamFrameServer..., group: String = "", location: String = "",
    server: String = "",
    locations: String = ""
  ) async throws {
    self.scene = scene
    port = try scene.port()
    let servers = upstreams.map { "server 127.0.0.1:\($0.port);" }.joined()
    daemon = try await Sallyport.start(
      scene,
      configuration(
        """
        upstream framed { \(servers) \(group) }
        server {
          listen 127.0.0.1:\(port); proxy_http_version 2; \(server)
          location / { proxy_pass http://framed; \(location) }
          \(locations)
        }
        """
      ).replacing("worker_processes 2", with: "worker_processes 1"))
  }

  func curl(_ path: String, _ arguments: [String] = [], input: [UInt8]? = nil) async throws -> CurlResult {
    try await scene.curl(arguments + ["http://127.0.0.1:\(port)\(path)"], input: input)
  }

  func talk<R: Sendable>(_ body: @escaping @Sendable (Wire) throws -> R) async throws -> R {
    try await scene.talk(port, body)
  }

  /// Asks for each path at the same time.
  func curl(_ paths: [String], _ arguments: [String] = []) async throws -> [CurlResult] {
    try await withThrowingTaskGroup(of: (Int, CurlResult).self) { group in
      for (index, path) in paths.enumerated() { group.addTask { (index, try await curl(path, arguments)) } }
      var results: [Int: CurlResult] = [:]
      for try await (index, result) in group { results[index] = result }
      return paths.indices.compactMap { results[$0] }
    }
  }

  /// Checks that the daemon still serves.
  func lives(_ path: String = "/alive") async throws {
    let result = try await curl(path)
    #expect(result.status == 200 && result.text == "alive", "\(result.status) \(result.text)")
    #expect(daemon.process.ending == nil)
  }
}
