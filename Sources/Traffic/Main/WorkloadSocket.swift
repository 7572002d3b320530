import Transport

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
