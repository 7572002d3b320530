import CLinux
import Glibc

/// `openssl s_server`, whose log shows each byte of application data that it was sent.
package final class OpenSSLServer: Sendable {
  package let port: UInt16
  private let scene: Scene
  private let name: String
  private let process: ChildProcess
  /// Held open, since s_server ends with its standard input.
  private let input: Wire

  /// Prints what it is sent and answers nothing, unless `arguments` say -www or -rev.
  package static func start(
    _ scene: Scene, _ identity: IdentityFiles, name: String = "s_server", chain: [String] = [], _ arguments: String...
  ) async throws -> OpenSSLServer {
    let server = try OpenSSLServer(scene, identity, name: name, arguments)
    try await until("s_server to listen") {
      if let ending = server.process.ending {
        throw ToolFailed(description: "s_server ended, \(ending): \(scene.text("\(name).err"))")
      }
      return scene.text("\(name).out").contains("ACCEPT")
    }
    return server
  }

  private init(_ scene: Scene, _ identity: IdentityFiles, name: String, _ arguments: [String]) throws {
    self.scene = scene
    self.name = name
    port = try scene.port()
    let (ours, theirs) = try SocketPair.make()
    input = Wire(owning: ours)
    defer { close(theirs) }
    process = try ChildProcess(
      "openssl",
      ["s_server", "-accept", "127.0.0.1:\(port)", "-cert", identity.certificate, "-key", identity.key]
        + (arguments.contains("-cert_chain") ? [] : ["-cert_chain", identity.certificate]) + arguments,
      in: scene.folder, input: .descriptor(theirs), output: scene.path("\(name).out"), errors: scene.path("\(name).err")
    )
    let (process, input) = (process, input)
    scene.atEnd {
      process.stop()
      input.close()
    }
    scene.onFailure(show: name) { scene.text("\(name).out") + scene.text("\(name).err") }
  }

  package var log: String { scene.text("\(name).out") + scene.text("\(name).err") }
}

enum SocketPair {
  static func make() throws -> (ours: Int32, theirs: Int32) {
    var pair: [Int32] = [-1, -1]
    guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0, &pair) == 0 else {
      throw WireError.system("socketpair", errno)
    }
    return (pair[0], pair[1])
  }
}
