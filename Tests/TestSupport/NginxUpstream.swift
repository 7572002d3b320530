import Glibc

/// A real nginx in the scene's folder, as an upstream or as another opinion on a configuration.
package final class NginxUpstream: Sendable {
  private let scene: Scene
  private let name: String
  package let process: ChildProcess

  /// `servers` goes into its http block; it is ready when each of `ports` accepts and each of `sockets` exists.
  package static func start(
    _ scene: Scene, name: String = "nginx", ports: [UInt16], sockets: [String] = [], _ servers: String
  ) async throws -> NginxUpstream {
    let server = try NginxUpstream(scene, name: name, servers)
    try await until("nginx to listen") {
      if let ending = server.process.ending {
        throw ToolFailed(description: "nginx ended, \(ending): \(server.errorLog)")
      }
      return sockets.allSatisfy { access($0, F_OK) == 0 } && ports.allSatisfy { (try? Wire.dial(port: $0)) != nil }
    }
    return server
  }

  /// Only root may write to the folders that Debian's nginx has for bodies.
  package static func temporaryPaths(in folder: String) -> String {
    ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map { "\($0)_temp_path \(folder)/\($0);" }
      .joined(separator: " ")
  }

  /// The same, and a log in place of Debian's.
  package static func ownPaths(in folder: String) -> String {
    "access_log \(folder)/nginx-access.log; " + temporaryPaths(in: folder)
  }

  private init(_ scene: Scene, name: String, _ servers: String) throws {
    self.scene = scene
    self.name = name
    let folder = try scene.makeFolder(name)
    let configuration = try scene.write(
      "\(name).conf",
      text: """
        daemon off; master_process off; pid \(folder)/nginx.pid; error_log \(folder)/error.log info;
        events { worker_connections 512; }
        http {
          \(Self.temporaryPaths(in: folder))
          log_format all '$request|$status|$request_length|$ssl_client_verify|$ssl_client_s_dn|$ssl_session_reused|$connection_requests';
          access_log \(folder)/access.log all;
          \(servers)
        }
        """)
    process = try ChildProcess(
      "nginx", ["-p", folder, "-e", "\(folder)/error.log", "-c", configuration], in: folder,
      output: "\(folder)/stdout", errors: "\(folder)/stderr")
    let process = process
    scene.atEnd { process.stop() }
    scene.onFailure(show: name) { scene.text("\(name)/error.log") + scene.text("\(name)/access.log") }
  }

  package var accessLog: String { scene.text("\(name)/access.log") }
  package var errorLog: String { scene.text("\(name)/error.log") + scene.text("\(name)/stderr") }
}
