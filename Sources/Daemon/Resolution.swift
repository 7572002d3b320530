import Dispatch
import Observability
import Synchronization
import Transport
import Upstream

/// The names of upstream servers, looked up once a generation, as nginx does at start.
enum Resolution {
  /// Every address of a name becomes a server. A name that has none is an error. Waits for the answers, which come
  /// side by side: never on an event loop.
  static func resolve(_ groups: [UpstreamGroupSettings]) -> (groups: [ResolvedGroup], diagnostics: [Diagnostic]) {
    let found = lookUp(Array(Set(groups.flatMap { $0.servers.map(\.address) })))
    var diagnostics: [Diagnostic] = []
    let resolved = groups.map { group in
      ResolvedGroup(
        settings: group,
        servers: group.servers.flatMap { server in
          let addresses = found[server.address] ?? []
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

  private static func lookUp(_ wanted: [UpstreamAddress]) -> [UpstreamAddress: [SocketAddress]] {
    let found = Mutex<[UpstreamAddress: [SocketAddress]]>([:])
    DispatchQueue.concurrentPerform(iterations: wanted.count) { index in
      let addresses =
        switch wanted[index] {
        case .address(let address): [address]
        case .name(let name, let port): Resolver.addresses(of: name, port: port)
        }
      found.withLock { $0[wanted[index]] = addresses }
    }
    return found.withLock { $0 }
  }
}
