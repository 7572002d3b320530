import Foundation
import Glibc
import TestSupport
import Testing

/// A real OpenSSH server with keys of its own, where whoever runs the tests may log in.
struct SSHServer: Sendable {
  static let isInstalled = PeerFolder.has("sshd", "ssh", "ssh-keygen")
  let scene: Scene
  let port: UInt16
  private let folder: PeerFolder

  var log: String { folder.text("output") }

  static func start(_ scene: Scene) async throws -> SSHServer {
    let folder = try PeerFolder(scene, "ssh"), port = try scene.port()
    for name in ["host", "user"] {
      try await scene.succeed("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "\(folder.path)/\(name)")
    }
    try folder.write("known", text: "peer \(folder.text("host.pub"))")
    let settings = try folder.write(
      "sshd_config",
      text: """
        ListenAddress 127.0.0.1
        Port \(port)
        HostKey \(folder.path)/host
        AuthorizedKeysFile \(folder.path)/user.pub
        StrictModes no
        UsePAM no
        PasswordAuthentication no
        KbdInteractiveAuthentication no
        PermitRootLogin prohibit-password
        PidFile none

        """)
    // Root's sshd wants the folder that Debian's service makes.
    if geteuid() == 0 { mkdir("/run/sshd", 0o755) }
    try await folder.serve(["/usr/sbin/sshd", "-D", "-e", "-f", settings], isRoot: true) { accepts(port) }
    return SSHServer(scene: scene, port: port, folder: folder)
  }

  /// Runs a command there, by way of the proxy's command.
  func run(_ command: String, through proxy: String, input: [UInt8]? = nil) async throws -> ToolResult {
    try await scene.run(
      "ssh",
      [
        "-F", "none", "-i", "\(folder.path)/user", "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes",
        "-o", "UserKnownHostsFile=\(folder.path)/known", "-o", "GlobalKnownHostsFile=none", "-o", "HostKeyAlias=peer",
        "-o", "StrictHostKeyChecking=yes", "-o", "ProxyCommand=\(proxy)", "\(NSUserName())@peer", command,
      ], input: input, within: .seconds(90))
  }
}

@Suite(.staged, .enabled(if: SSHServer.isInstalled, "OpenSSH's server is not installed"))
struct `SSH through a stream` {
  /// A ProxyCommand with a client certificate, or none.
  private func tunnel(_ proxy: PeerProxy, _ identity: IdentityFiles?) -> String {
    let words = [
      "openssl", "s_client", "-quiet", "-verify_quiet", "-verify_return_error", "-verify_hostname", "localhost",
      "-servername", "localhost", "-CAfile", proxy.scene.path("ca.pem"), "-connect", "127.0.0.1:\(proxy.port)",
    ]
    let proof = identity.map { ["-cert", $0.certificate, "-key", $0.key] } ?? []
    return (words + proof).joined(separator: " ")
  }

  @Test func `a command runs there, and megabytes pass both ways`() async throws {
    let scene = try Scene.ofTest(), server = try await SSHServer.start(scene)
    let proxy = try await PeerProxy(Cast(scene), to: server.port)
    let way = tunnel(proxy, proxy.cast.alice)
    let answer = try await server.run("echo $((6 * 7)); exit 3", through: way)
    #expect(answer.status == 3 && answer.text == "42\n", "\(answer.errors) \(server.log)")
    let bytes = Pattern.bytes(20 << 20)
    let echoed = try await server.run("cat", through: way, input: bytes)
    #expect(echoed.status == 0 && Pattern.equal(echoed.output, bytes), "\(echoed.errors)")
    #expect(!proxy.daemon.errorLog.contains("[error]"))
  }

  @Test func `a client without the right certificate reaches nothing`() async throws {
    let scene = try Scene.ofTest(), server = try await SSHServer.start(scene)
    let proxy = try await PeerProxy(Cast(scene), to: server.port)
    for identity in [nil, proxy.stranger] {
      let answer = try await server.run("echo $((6 * 7))", through: tunnel(proxy, identity))
      #expect(answer.status == 255 && answer.text == "", "\(answer.everything)")
    }
    #expect(!server.log.contains("Accepted publickey"), "\(server.log)")
  }
}
