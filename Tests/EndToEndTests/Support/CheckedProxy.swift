import Glibc
import TestSupport

/// A daemon whose upstream group is checked, and the page of its metrics.
struct CheckedProxy: Sendable {
  let scene: Scene
  let daemon: Sallyport
  let port: UInt16
  private let text: String

  /// `servers`: of the group `app`. `location`: the lines of the location at /, with a proxy_pass to that group.
  init(
    _ scene: Scene, _ servers: [String], _ location: String, http: String = "", locations: String = "",
    workers: Int = 2
  ) async throws {
    self.scene = scene
    port = try scene.port()
    text = configuration(
      """
      \(http)
      upstream app { \(servers.map { "server \($0);" }.joined(separator: " ")) }
      server { listen 127.0.0.1:\(port); http2 on; server_name localhost;
        location = /metrics { metrics; }
        location / { \(location) }
        \(locations)
      }
      """
    ).replacing("worker_processes 2", with: "worker_processes \(workers)")
    daemon = try await Sallyport.start(scene, text)
  }

  func get(_ path: String = "/") async throws -> CurlResult {
    try await scene.curl(["http://127.0.0.1:\(port)\(path)"])
  }

  /// Makes a call of gRPC; returns its status. Without a message where an error is expected: curl 7.88 can fail if a response
  /// comes before it has sent its body.
  func call(message: [UInt8]? = [0, 0, 0, 0, 0]) async throws -> String? {
    let result = try await scene.curl(
      ["--http2-prior-knowledge", "-H", "TE: trailers", "-H", "Content-Type: application/grpc"]
        + ["-X", "POST", "http://127.0.0.1:\(port)/test.Test/Echo"], input: message)
    return result.heads.firstMatch(of: /grpc-status: (\d+)/.ignoresCase()).map { String($0.output.1) }
  }

  /// The value of the metric with these labels; nil if the page has none.
  func metric(_ name: String, _ labels: String) async throws -> Int? {
    let page = try await scene.page(port, "/metrics").text
    let line = page.split(separator: "\n").first { $0.hasPrefix("\(name){\(labels)} ") }
    return line.flatMap { $0.split(separator: " ").last }.flatMap { Int($0) }
  }

  func isUp(_ server: String, of group: String = "app") async throws -> Bool? {
    try await metric("sallyport_upstream_server_up", "upstream=\"\(group)\",server=\"\(server)\"").map { $0 == 1 }
  }

  func checks(_ server: String, _ result: String, of group: String = "app") async throws -> Int {
    try await metric(
      "sallyport_upstream_health_checks_total", "upstream=\"\(group)\",server=\"\(server)\",result=\"\(result)\"") ?? 0
  }

  /// Waits until a server's health is so.
  func until(_ server: String, isUp: Bool, of group: String = "app") async throws {
    try await TestSupport.until("\(server) to be \(isUp ? "up" : "down")") {
      try await self.isUp(server, of: group) == isUp
    }
  }

  /// Waits until a server was checked so often, with this result.
  func until(_ server: String, _ result: String, times: Int) async throws {
    try await TestSupport.until("\(times) checks of \(server) that \(result)") {
      try await checks(server, result) >= times
    }
  }

  /// Loads the configuration again, and waits until it serves.
  func reload() async throws {
    daemon.signal(SIGHUP)
    try await TestSupport.until("generation 2") {
      try await scene.page(port, "/metrics").text.contains("sallyport_generation 2\n")
    }
  }

  /// The bodies of so many responses, which are the names of the servers.
  func servers(of count: Int) async throws -> Set<String> {
    var found: Set<String> = []
    for _ in 0..<count { found.insert(try await get().text) }
    return found
  }
}
