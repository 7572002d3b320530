import Crypto
import Glibc

/// A real Apache httpd in the scene's folder that asks for passwords: `/digest/…` by mod_auth_digest, `/basic/…` by
/// mod_auth_basic, and `/open/…` not at all. Every file answers with its name.
package final class ApacheUpstream: Sendable {
  package struct Account: Sendable {
    package var user: String
    package var password: String
    package init(_ user: String, _ password: String) {
      self.user = user
      self.password = password
    }
  }

  package static let realm = "a realm"
  package let port: UInt16
  private let scene: Scene
  private let name: String
  private let process: ChildProcess

  package static func start(
    _ scene: Scene, name: String = "apache", port: UInt16? = nil, accounts: [Account]
  ) async throws -> ApacheUpstream {
    let server = try await ApacheUpstream(scene, name, port ?? scene.port(), accounts)
    try await until("apache to listen") {
      if let ending = server.process.ending { throw ToolFailed(description: "apache: \(ending) \(server.errorLog)") }
      return (try? Wire.dial(port: server.port)) != nil
    }
    return server
  }

  private init(_ scene: Scene, _ name: String, _ port: UInt16, _ accounts: [Account]) async throws {
    self.scene = scene
    self.name = name
    self.port = port
    let folder = try scene.makeFolder(name)
    for path in ["digest", "basic", "open"] {
      try scene.makeFolder("\(name)/www/\(path)")
      try scene.write("\(name)/www/\(path)/page", text: path)
    }
    var hashes = "", secrets = ""
    for account in accounts {
      let text = "\(account.user):\(Self.realm):\(account.password)"
      let sum = try await scene.succeed("md5sum", input: Array(text.utf8)).prefix(32)
      hashes += "\(account.user):\(Self.realm):\(sum)\n"
      let crypt = try await scene.succeed("openssl", "passwd", "-apr1", "-stdin", input: Array(account.password.utf8))
      secrets += "\(account.user):\(crypt)\n"
    }
    try scene.write("\(name)/digest.users", text: hashes)
    try scene.write("\(name)/basic.users", text: secrets)
    let modules = ["mpm_event", "authn_core", "authn_file", "authz_core", "authz_user", "auth_basic", "auth_digest"]
    let configuration = try scene.write(
      "\(name).conf",
      text: """
        ServerRoot \(folder)
        PidFile \(folder)/pid
        ServerName localhost
        Listen 127.0.0.1:\(port)
        \(modules.map { "LoadModule \($0)_module /usr/lib/apache2/modules/mod_\($0).so" }.joined(separator: "\n"))
        ErrorLog \(folder)/error.log
        LogFormat "%{begin:usec}t|%s|%u|%m|%U|%{Authorization}i" all
        CustomLog \(folder)/access.log all
        DocumentRoot \(folder)/www
        <Directory \(folder)/www>
          Require all granted
        </Directory>
        <Location /digest>
          AuthType Digest
          AuthName "\(Self.realm)"
          AuthDigestProvider file
          AuthUserFile \(folder)/digest.users
          Require valid-user
        </Location>
        <Location /basic>
          AuthType Basic
          AuthName "\(Self.realm)"
          AuthBasicProvider file
          AuthUserFile \(folder)/basic.users
          Require valid-user
        </Location>
        """)
    process = try ChildProcess(
      "apache2", ["-X", "-f", configuration], in: folder, output: "\(folder)/stdout", errors: "\(folder)/stderr")
    let process = process
    scene.atEnd { process.stop() }
    scene.onFailure(show: name) { scene.text("\(name)/error.log") + scene.text("\(name)/access.log") }
  }

  /// `[STATUS, USER, METHOD, PATH, AUTHORIZATION]`, one for each request, in the order they began: the log has them as
  /// its threads came to write them, which is after their answers.
  package var requests: [[String]] {
    scene.text("\(name)/access.log").split(separator: "\n")
      .map { $0.split(separator: "|", maxSplits: 5, omittingEmptySubsequences: false).map(String.init) }
      .filter { $0.count == 6 }
      .sorted { $0[0] < $1[0] }
      .map { Array($0.dropFirst()) }
  }

  /// The same once there are so many: a line is written after its answer.
  package func seen(_ count: Int) async throws -> [[String]] {
    try await until("\(count) requests in apache's log") { requests.count >= count }
    return requests
  }

  /// Ends it; what knew its nonces was its process.
  package func stop() async throws {
    process.stop()
    _ = try await process.ended()
  }

  package var errorLog: String { scene.text("\(name)/error.log") + scene.text("\(name)/stderr") }
}
