/// A real HAProxy in the scene's folder, as another opinion on requests.
package enum HAProxy {
  /// `bind` and `server`: more words for these lines. It is ready when its port accepts.
  package static func start(
    _ scene: Scene, port: UInt16, to upstream: UInt16, mode: String = "http", bind: String = "", server: String = ""
  ) async throws {
    let configuration = try scene.write(
      "haproxy-\(port).cfg",
      text: """
        defaults
          mode \(mode)
          timeout connect 5s
          timeout client 2s
          timeout server 10s
          timeout http-request 2s
          timeout http-keep-alive 2s
        frontend front
          bind 127.0.0.1:\(port) \(bind)
          default_backend back
        backend back
          server one 127.0.0.1:\(upstream) \(server)

        """)
    let process = try ChildProcess(
      "haproxy", ["-db", "-f", configuration], in: scene.folder, output: scene.path("haproxy-\(port).out"),
      errors: scene.path("haproxy-\(port).err"))
    scene.atEnd { process.stop() }
    scene.onFailure(show: "haproxy \(port)") { scene.text("haproxy-\(port).err") }
    try await until("HAProxy to listen") {
      if let ending = process.ending {
        throw ToolFailed(description: "HAProxy ended, \(ending): \(scene.text("haproxy-\(port).err"))")
      }
      return (try? Wire.dial(port: port)) != nil
    }
  }
}
