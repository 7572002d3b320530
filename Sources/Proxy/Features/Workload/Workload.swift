import Language
import Observability
import Transport

/// Where identities of SPIFFE come from. Who takes one says `spiffe:` where certificates and CAs are named
/// (`ServerWorkloadRule`, `UpstreamWorkloadRule`); the daemon follows the agent.
enum Workload: Feature {
  static let chapter = Chapter.main
  private static let endpoint = "spiffe_endpoint"

  static let directives: [DirectiveEntry] = [
    .local(
      endpoint, .main, .words(1...1, "unix:PATH"), "$SPIFFE_ENDPOINT_SOCKET",
      "The socket of the SPIFFE agent (Workload API), from which `spiffe:` takes certificates, keys and trust bundles.",
      example: "spiffe_endpoint unix:/run/spire/agent/public/api.sock;")
  ]

  /// The path of the agent's socket; nil without the directive.
  static func endpoint(_ scope: Scope, _ builder: inout SettingsBuilder) -> String? {
    guard let line = scope.value(endpoint) else { return nil }
    let path = WorkloadSocket.path(in: line.text(0))
    if path == nil {
      builder.error(
        line.place(0), "invalid socket \"\(line.text(0))\" in \"\(endpoint)\" directive",
        hint:
          "unix: and an absolute path of at most \(SocketAddress.longestUnixPath) bytes; the Workload API over TCP has no way to know the process that asks"
      )
    }
    return path
  }
}

/// The address of a SPIFFE agent, as the environment and the configuration write it (SPIFFE_Workload_Endpoint §4).
package enum WorkloadSocket {
  /// Returns the path of `unix:///run/agent.sock`, or of nginx's `unix:/run/agent.sock`; nil for anything else.
  package static func path(in text: String) -> String? {
    let scheme = "unix:"
    guard text.hasPrefix(scheme) else { return nil }
    var path = text.dropFirst(scheme.count)
    if path.hasPrefix("//") { path = path.dropFirst(2) }
    guard path.hasPrefix("/"), !path.hasPrefix("//"), path.utf8.count <= SocketAddress.longestUnixPath,
      !path.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F })
    else { return nil }
    return String(path)
  }
}
