import Crypto
import TestSupport
import Testing

/// An authority in the folder `ca` of a scene, and the commands on it.
struct AuthorityCast {
  let scene: Scene
  var folder = "ca"

  init(_ scene: Scene, folder: String = "ca", _ options: String...) async throws {
    self.scene = scene
    self.folder = folder
    try await succeed("ca", ["init", scene.path(folder)] + options)
  }

  /// Runs `sallyport ca COMMAND FOLDER …` in the scene's folder.
  func ca(_ command: String, _ arguments: String..., input: [UInt8] = []) async throws -> ToolResult {
    try await scene.run(
      Sallyport.binary(), ["ca", command, scene.path(folder)] + arguments, input: input)
  }

  /// Runs a command that must succeed. Returns its standard output.
  @discardableResult
  func succeed(_ command: String, _ arguments: [String]) async throws -> String {
    let binary = try Sallyport.binary()
    let result = try await scene.run(
      command == "ca" ? binary : command, command == "ca" ? ["ca"] + arguments : arguments)
    guard result.status == 0 else { throw ToolFailed(description: "\(command) \(arguments): \(result.everything)") }
    return result.text
  }

  @discardableResult
  func openssl(_ arguments: String...) async throws -> String { try await succeed("openssl", arguments) }

  /// A root that ended three days ago, as PEM.
  static func endedRoot() throws -> String {
    var builder = CertificateBuilder(commonName: "ended", .authority(pathLength: nil))
    builder.notBefore -= 30 * 86_400
    builder.notAfter = builder.notBefore + 27 * 86_400
    return try builder.selfSigned(key: .generate()).certificate.pem
  }
}
