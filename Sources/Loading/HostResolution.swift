package import Observability
package import Traffic
package import Transport

/// The host names of locations, such as those of `set_real_ip_from`, resolved once a generation, as nginx does at start.
package struct HostResolution {
  /// By name.
  package private(set) var found: [String: [SocketAddress]] = [:]
  /// A name without an address is an error.
  package private(set) var diagnostics: [Diagnostic] = []

  /// Blocks while the lookups run. `former`: the generation whose addresses are kept; nil: names are looked up.
  package init(_ http: HTTPSettings, former: Generation?, by resolver: Resolver) {
    if let former {
      found = former.hosts
      return
    }
    let hosts = http.servers.flatMap { $0.root.withNested }.flatMap(\.hosts)
    guard !hosts.isEmpty else { return }
    let addresses = resolver.addresses(of: Set(hosts.map { Resolver.Name($0.name, port: 0) }))
    for host in Set(hosts).sorted(by: { $0.name < $1.name }) {
      let all = addresses[Resolver.Name(host.name, port: 0)] ?? []
      found[host.name] = all
      guard all.isEmpty else { continue }
      diagnostics.append(host.fault)
    }
  }
}
