import Features
import Forward
import Identity
import TLS
import Traffic
import Upstream

/// By which listeners clients reach each upstream without a certificate, for `check`.
///
/// A server block says who may enter it, and nothing of the other blocks with the same upstream. An upstream is as
/// protected as its widest door. A configuration that asks nobody for a certificate has no such lines.
struct UpstreamDoors {
  private(set) var lines: [String] = []

  private struct Door {
    let label: String
    let reach: UpstreamReach
  }

  init(_ http: HTTPSettings, _ resolved: [ResolvedGroup]) {
    guard http.servers.contains(where: { $0.clientPolicy.map { $0.verification != .off } ?? false }) else { return }
    let reaches = UpstreamReaches(http, resolved), names = IdentityNames(http, resolved)
    var doors: [Door] = []
    var used: Set<Int> = []
    for (index, server) in http.servers.enumerated() {
      let listeners = http.listeners(ofServer: index)
      for location in server.root.withNested {
        guard let pass = location[UpstreamPass.self] else { continue }
        if case .group(let group, _) = pass.target.upstream { used.insert(group) }
        for listener in listeners where Self.isOpen(listener, server, location) {
          doors.append(Door(label: Self.label(listener, server), reach: reaches.reach(of: pass)))
        }
      }
    }
    for index in used.sorted() where http.groups.indices.contains(index) {
      let reach = reaches.reach(ofGroup: index)
      var labels: [String] = []
      for door in doors where door.reach.meets(reach) {
        let label = door.reach == .any && reach != .any ? "\(door.label) (if its variables name it)" : door.label
        if !labels.contains(label) { labels.append(label) }
      }
      guard !labels.isEmpty else { continue }
      lines.append(
        "upstream \(http.groups[index].name) is reached without a certificate by \(labels.joined(separator: ", "))")
      let told = names.names(toldTo: reach).map { String(decoding: $0, as: UTF8.self) }
      if !told.isEmpty {
        lines.append(
          "  it is told who a client is in \(told.joined(separator: ", ")): no client's own field goes there")
      }
    }
  }

  /// Whether a client without a certificate gets by the listener to the upstream of the location.
  private static func isOpen(
    _ listener: ListenerSettings, _ server: ServerSettings, _ location: LocationSettings
  ) -> Bool {
    let needsByRule = location.clientRules.map { !$0.allow.isEmpty } ?? false
    guard let policy = listener.isTLS ? server.tls : server.relayedPolicy else { return !needsByRule }
    if listener.isTLS, policy.rejectsHandshake { return false }
    if policy.rejection == .reportOnly { return true }
    return policy.verification != .on && !needsByRule
  }

  private static func label(_ listener: ListenerSettings, _ server: ServerSettings) -> String {
    let kind = listener.kind == .stream ? " (stream)" : ""
    guard listener.servers.count > 1 else { return "\(listener.address)\(kind)" }
    let name = server.primaryName.isEmpty ? "the server at \(server.location)" : server.primaryName
    return "\(listener.address) (\(name))\(kind)"
  }
}
