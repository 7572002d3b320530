import Forward
package import Observability
package import Traffic
package import Transport
package import Upstream

/// The names of servers in `resolver`, resolved once a generation, as nginx does at start.
package struct NameServerResolution {
  package private(set) var found: [ResolverSettings: [SocketAddress]] = [:]
  /// A name without an address is an error.
  package private(set) var diagnostics: [Diagnostic] = []

  /// Blocks while the lookups run. `former`: the generation whose addresses are kept; nil: names are looked up.
  package init(_ resolvers: [ResolverSettings], former: Generation?, by resolver: Resolver) {
    if let former {
      found = former.nameServers
      return
    }
    let names = resolvers.flatMap(\.servers).compactMap { Self.name(of: $0.address) }
    let addresses = names.isEmpty ? [:] : resolver.addresses(of: Set(names))
    for settings in resolvers {
      found[settings] = settings.servers.flatMap { server -> [SocketAddress] in
        switch server.address {
        case .address(let address): [address]
        case .name(let host, let port): addresses[Resolver.Name(host, port: port)] ?? []
        }
      }
    }
    for server in Set(resolvers.flatMap(\.servers)) {
      guard let name = Self.name(of: server.address), addresses[name]?.isEmpty ?? true else { continue }
      diagnostics.append(
        Diagnostic(
          .error, at: server.location, "host not found in resolver \"\(name.host)\"",
          hint: "the names of DNS servers are resolved by the system at start and reload; give an address"))
    }
  }

  private static func name(of address: UpstreamAddress) -> Resolver.Name? {
    if case .name(let host, let port) = address { Resolver.Name(host, port: port) } else { nil }
  }
}
