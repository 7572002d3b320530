import Forward
import Language
import Observability
import Traffic
import Transport

/// Where identities of SPIFFE come from. Who takes one says `spiffe:` where certificates and CAs are named
/// (`ServerWorkloadRule`, `UpstreamWorkloadRule`); the daemon follows the agent.
enum Workload: Feature {
  static let chapter = Chapter.main

  private static let row = DirectiveEntry.local(
    "spiffe_endpoint", .main, .words(1...1, "unix:PATH"), "$SPIFFE_ENDPOINT_SOCKET",
    "The socket of the SPIFFE agent (Workload API), from which `spiffe:` takes certificates, keys and trust bundles.",
    example: "spiffe_endpoint unix:/run/spire/agent/public/api.sock;"
  ).option("--spiffe-endpoint")
  static let directives = [row]

  static func begin(_ scope: Scope, _ main: inout MainSettings, _ builder: inout SettingsBuilder) {
    guard let line = row.line(in: scope) else { return }
    let path = WorkloadSocket.path(in: line.text(0))
    if path == nil {
      builder.error(
        line.place(0), "invalid socket \"\(line.text(0))\" in \"\(line.name)\" directive",
        hint:
          "unix: and an absolute path of at most \(SocketAddress.longestUnixPath) bytes; the Workload API over TCP has no way to know the process that asks"
      )
    }
    main.workloadEndpoint = path
  }
}
