import Crypto
import Foundation

/// pebble, Let's Encrypt's ACME server for tests, in the scene's folder: it refuses nonces, and its VA looks at ports of
/// our own.
package final class Pebble: Sendable {
  package let port: UInt16
  /// Where its VA looks for http-01 and tls-alpn-01.
  package let httpPort: UInt16
  package let tlsPort: UInt16
  private let management: UInt16
  private let scene: Scene
  private let environment: [String: String]
  private let dns: UInt16
  /// Where records of its DNS are set (`/set-txt`, `/clear-txt`).
  package let records: UInt16

  package static let isThere = get("pebble") && get("pebble-challtestsrv")

  private static func get(_ tool: String) -> Bool { access("/usr/bin/\(tool)", X_OK) == 0 }

  /// `settings`: further members of its configuration. `environment`: of PEBBLE_…, over nonces that are refused for every
  /// fifth request and challenges without a delay.
  package init(
    _ scene: Scene, settings: String = "", environment: [String: String] = [:]
  ) async throws {
    self.scene = scene
    (port, httpPort, tlsPort) = (try scene.port(), try scene.port(), try scene.port())
    management = try scene.port()
    dns = try scene.port()
    records = try scene.port()
    self.environment = ["PEBBLE_WFE_NONCEREJECT": "20", "PEBBLE_VA_NOSLEEP": "1"].merging(environment) { $1 }
    let authority = try TestAuthority("Pebble")
    try scene.write("pebble-ca.pem", text: authority.root.certificate.pem)
    _ = try scene.identity("pebble", authority.server())
    try scene.write(
      "pebble.json",
      text: """
        {"pebble": {"listenAddress": "127.0.0.1:\(port)", "managementListenAddress": "127.0.0.1:\(management)",
          "certificate": "pebble.pem", "privateKey": "pebble.key", "httpPort": \(httpPort), "tlsPort": \(tlsPort),
          "ocspResponderURL": ""\(settings.isEmpty ? "" : ", " + settings)}}
        """)
    let names = try ChildProcess(
      "pebble-challtestsrv",
      [
        "-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", "-dns01", "127.0.0.1:\(dns)", "-http01", "", "-https01", "",
        "-tlsalpn01", "", "-management", "127.0.0.1:\(records)",
      ], in: scene.folder, output: scene.path("names.out"), errors: scene.path("names.err"))
    scene.atEnd { names.stop() }
    try await start()
  }

  /// Starts it anew: it has forgotten everything.
  @discardableResult
  package func start() async throws -> ChildProcess {
    let process = try ChildProcess(
      "pebble", ["-config", "pebble.json", "-dnsserver", "127.0.0.1:\(dns)"], in: scene.folder,
      environment: environment, output: scene.path("pebble.out"), errors: scene.path("pebble.err"))
    scene.atEnd { process.stop() }
    let scene = scene
    scene.onFailure(show: "pebble") { scene.text("pebble.out") + scene.text("pebble.err") }
    let port = port
    try await until("pebble to listen") {
      if let ending = process.ending {
        throw ToolFailed(description: "pebble ended, \(ending): \(scene.text("pebble.out"))")
      }
      return (try? Wire.dial(port: port)) != nil
    }
    return process
  }

  /// An `acme_issuer` of it. `lines`: further ones.
  package func issuer(_ name: String = "pebble", _ lines: String = "") -> String {
    """
    acme_issuer \(name) { uri https://localhost:\(port)/dir; ssl_trusted_certificate pebble-ca.pem;
      state_path state-\(name); accept_terms_of_service; \(lines) }
    """
  }

  /// Writes a program for `challenge dns-01`, which sets and removes records of its DNS and notes each run in the scene's
  /// file `hook.log`. `more`: lines of the shell before that. Returns its path.
  package func hook(_ more: String = "") throws -> String {
    try scene.write(
      "hook",
      text: """
        #!/bin/sh
        echo "$@" >> '\(scene.path("hook.log"))'
        \(more)
        case "$1" in
          present) exec curl -sS -d "{\\"host\\": \\"$2\\", \\"value\\": \\"$3\\"}" http://127.0.0.1:\(records)/set-txt ;;
          cleanup) exec curl -sS -d "{\\"host\\": \\"$2\\"}" http://127.0.0.1:\(records)/clear-txt ;;
        esac
        """)
    chmod(scene.path("hook"), 0o755)
    return scene.path("hook")
  }

  /// Has curl trust the certificates that it issues.
  package func trust() async throws -> [String] {
    try await scene.succeed(
      "curl", "-sS", "--cacert", scene.path("pebble-ca.pem"), "-o", scene.path("issued.pem"),
      "https://127.0.0.1:\(management)/roots/0")
    return ["--cacert", scene.path("issued.pem")]
  }
}
