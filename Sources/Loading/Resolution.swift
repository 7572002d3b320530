package import Observability
package import Transport
package import Upstream

/// Resolves the names of upstream servers once a generation, as nginx does at start.
package enum Resolution {
  /// Makes every address of a name a server. A name without an address is an error. Blocks while the lookups run in
  /// parallel, so never call it on an event loop.
  package static func resolve(
    _ groups: [UpstreamGroupSettings], by resolver: Resolver
  ) -> (groups: [ResolvedGroup], diagnostics: [Diagnostic]) {
    let names = groups.filter { !$0.isNamedToProxies }.flatMap {
      $0.servers.filter { $0.followed == nil }.compactMap { Self.name(of: $0.address) }
    }
    let found = resolver.addresses(of: Set(names))
    var diagnostics: [Diagnostic] = []
    let resolved = groups.map { group in
      ResolvedGroup(
        settings: group,
        servers: group.servers.flatMap { server -> [ResolvedGroup.Server] in
          // The name is asked for while requests are served.
          if server.followed != nil { return [] }
          let addresses =
            switch server.address {
            case .address(let address): [address]
            case .name(let host, let port) where group.isNamedToProxies: [SocketAddress.name(host, port: port)]
            case .name(let host, let port): found[Resolver.Name(host, port: port)] ?? []
            }
          if addresses.isEmpty {
            diagnostics.append(
              Diagnostic(
                .error, at: server.location, "host not found in upstream \"\(server.address)\"",
                hint: "names are resolved at start and reload: see that `getent hosts` knows it, or give an address"))
          }
          return addresses.map { ResolvedGroup.Server(address: $0, settings: server) }
        })
    }
    return (resolved, diagnostics)
  }

  private static func name(of address: UpstreamAddress) -> Resolver.Name? {
    if case .name(let host, let port) = address { Resolver.Name(host, port: port) } else { nil }
  }
}
