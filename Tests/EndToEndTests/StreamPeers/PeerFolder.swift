import Foundation
import Glibc
import TestSupport

/// The folder of a server of some other protocol than HTTP, in a scene. It belongs to whom the server runs as: where root
/// runs the tests, that is nobody, since most of these servers refuse to be root.
struct PeerFolder: Sendable {
  let scene: Scene
  let name: String
  let path: String

  static let user = geteuid() == 0 ? "nobody" : NSUserName()
  static let group = geteuid() == 0 ? "nogroup" : getgrgid(getegid()).map { String(cString: $0.pointee.gr_name) } ?? ""
  private static let asUser =
    geteuid() == 0
    ? ["setpriv", "--reuid=\(user)", "--regid=\(group)", "--groups=\(group)", "--no-new-privs"] : ["env"]

  init(_ scene: Scene, _ name: String) throws {
    self.scene = scene
    self.name = name
    path = try scene.makeFolder(name)
    // The scene's folder is root's alone, and nobody has to pass through it.
    if geteuid() == 0 { chmod(scene.folder, 0o711) }
  }

  @discardableResult
  func write(_ file: String, text: String) throws -> String { try scene.write("\(name)/\(file)", text: text) }

  func text(_ file: String) -> String { scene.text("\(name)/\(file)") }

  /// A copy of a certificate and its key that the server may read: NAME.pem and NAME.key.
  func take(_ identity: IdentityFiles, as name: String = "server") throws {
    for (source, suffix) in [(identity.certificate, "pem"), (identity.key, "key")] {
      let copy = "\(path)/\(name).\(suffix)"
      try FileManager.default.copyItem(atPath: source, toPath: copy)
      chmod(copy, 0o600)
    }
  }

  /// Gives all that is in it to whom the server runs as.
  func handOver() async throws {
    if geteuid() == 0 { try await scene.succeed("chown", "-R", "\(Self.user):\(Self.group)", path) }
  }

  /// Runs a command to its end, as whom the server runs as.
  func run(_ command: String...) async throws {
    let result = try await scene.run(Self.asUser[0], Self.asUser.dropFirst() + command)
    guard result.status == 0 else { throw ToolFailed(description: "\(command): \(result.everything)") }
  }

  /// Starts the server and waits until it is ready. At the end it gets the signal, by which it ends its own processes too.
  /// `isRoot`: it is one that root may run.
  func serve(
    _ command: [String], isRoot: Bool = false, environment: [String: String] = [:], ending signal: Int32 = SIGTERM,
    log: [String] = [], isReady: @escaping @Sendable () -> Bool
  ) async throws {
    let words = (isRoot ? ["env"] : Self.asUser) + command
    let process = try ChildProcess(
      words[0], Array(words.dropFirst()), in: path, environment: environment, output: "\(path)/output",
      errors: "\(path)/output")
    scene.atEnd {
      process.signal(signal)
      for _ in 0..<5000 where process.ending == nil { usleep(1000) }
      process.stop()
    }
    let said: @Sendable () -> String = { ([text("output")] + log.map(text)).joined() }
    scene.onFailure(show: name, said)
    try await until("\(name) to be ready") {
      if let ending = process.ending { throw ToolFailed(description: "\(name) ended, \(ending): \(said())") }
      return isReady()
    }
  }

  /// Whether each of these commands is installed.
  static func has(_ commands: String...) -> Bool {
    let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map(String.init)
    return commands.allSatisfy { command in
      (folders + ["/usr/sbin", "/sbin"]).contains { access("\($0)/\(command)", X_OK) == 0 }
    }
  }
}

/// Whether somebody listens on a port of this machine.
func accepts(_ port: UInt16) -> Bool { (try? Wire.dial(port: port)) != nil }
