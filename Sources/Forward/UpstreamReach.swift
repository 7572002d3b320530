import Bytes
package import Traffic
import Transport
package import Upstream

/// The upstream servers that requests of a `proxy_pass` can reach, as far as a configuration says it.
package enum UpstreamReach: Sendable, Equatable {
  /// Variables name the server, or the API can add any.
  case any
  /// As `UpstreamReaches` writes them.
  case servers(Set<UpstreamAddress>)

  /// Whether one server can be reached by both.
  package func meets(_ other: UpstreamReach) -> Bool {
    switch (self, other) {
    case (.any, _), (_, .any): true
    case (.servers(let one), .servers(let other)): !one.isDisjoint(with: other)
    }
  }
}

/// Finds what each `proxy_pass` of a configuration can reach. Two groups with a server in common are one upstream here,
/// whatever their names are.
package struct UpstreamReaches: Sendable {
  private let groups: [UpstreamReach]
  /// By name in lower case: those of `http`, then those of `stream`.
  private let named: [TrafficKind: [String: UpstreamReach]]

  /// `resolved`: as `http.groups`; without it, names count as they are written.
  package init(_ http: HTTPSettings, _ resolved: [ResolvedGroup]) {
    let groups = http.groups.enumerated().map { index, group -> UpstreamReach in
      if group.zone != nil, group.stateFile != nil || http.hasWritableAPI { return .any }
      var servers = Set(group.servers.map { Self.canonical($0.address) })
      if resolved.indices.contains(index) {
        for server in resolved[index].servers {
          if case .name = server.settings.address { servers.insert(Self.canonical(.address(server.address))) }
        }
      }
      return .servers(servers)
    }
    self.groups = groups
    var named: [TrafficKind: [String: UpstreamReach]] = [:]
    for (group, reach) in zip(http.groups, groups) {
      named[group.isOfStream ? .stream : .http, default: [:]][group.name.lowercased()] = reach
    }
    self.named = named
  }

  package func reach(ofGroup index: Int) -> UpstreamReach { groups.indices.contains(index) ? groups[index] : .any }

  package func reach(of pass: UpstreamPass) -> UpstreamReach {
    switch pass.target.upstream {
    case .group(let index, _): return reach(ofGroup: index)
    case .url: return .any
    case .template(let template, let scheme):
      guard let authority = Self.authority(of: template) else { return .any }
      let name = authority.lowercased()
      if let reach = named[pass.tcp == nil ? .http : .stream]?[name] { return reach }
      guard let parsed = try? HostPort(name, bareIPv6: .isHost) else { return .any }
      let port = parsed.port ?? scheme.defaultPort
      let address = SocketAddress(literal: parsed.host, port: port).map { UpstreamAddress.address($0) }
      return .servers([Self.canonical(address ?? .name(parsed.host, port: port))])
    }
  }

  /// The authority at the beginning of a target; nil if variables have a say in it, or it is a socket of the file system.
  private static func authority(of template: Template) -> String? {
    guard case .literal(let text)? = template.parts.first else { return nil }
    guard template.parts.count == 1 || text.contains(where: { $0 == 0x2F || $0 == 0x3F }) else { return nil }
    let authority = text.prefix { $0 != 0x2F && $0 != 0x3F }
    return DynamicTarget.isSocket(authority) ? nil : String(decoding: authority, as: UTF8.self)
  }

  /// One spelling for each server. A server that listens on every address has many, so all of this machine are one.
  private static func canonical(_ address: UpstreamAddress) -> UpstreamAddress {
    switch address {
    case .name("localhost", let port): .address(.ipv4(address: 0x7F00_0001, port: port))
    case .name(let name, let port), .address(.name(let name, let port)): .name(name.lowercased(), port: port)
    case .address(.ipv4(let address, let port)) where address == 0 || address >> 24 == 127:
      .address(.ipv4(address: 0x7F00_0001, port: port))
    case .address(.ipv6(0, let low, let port)) where low < 2: .address(.ipv4(address: 0x7F00_0001, port: port))
    case .address(.ipv6(0, let low, let port)) where low >> 32 == 0xFFFF:
      canonical(.address(.ipv4(address: UInt32(truncatingIfNeeded: low), port: port)))
    case .address: address
    }
  }
}
