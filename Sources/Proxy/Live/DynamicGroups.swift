import Bytes
import Observability
import Transport
import Upstream

/// Groups of `proxy_pass` targets with variables, made as they are asked for.
///
/// An upstream block of that name counts first, then a literal address, then a name that the system resolves; a name is
/// asked again after `lifetime`. Bounded: a client that chooses names can't fill the memory.
final class DynamicGroups {
  private static let lifetime: UInt64 = 30_000
  private static let limit = 1024

  typealias Found = Result<UpstreamGroup, Refusal>

  /// Why there is no group.
  enum Refusal: Error {
    case unknownHost
    /// Too many names are being looked up.
    case crowded
  }

  private enum Entry {
    case ready(UpstreamGroup, expires: UInt64)
    case resolving([(Found) -> Void])
  }

  private let named: [String: UpstreamGroup]
  /// That of every group that is made: for tests without a socket.
  var connector: UpstreamGroup.Connector?
  private var entries: [String: Entry] = [:]
  private let loop: EventLoop
  private let budget: ConnectionBudget
  private let resolver: Resolver

  init(groups: [UpstreamGroup], resolver: Resolver, loop: EventLoop, budget: ConnectionBudget) {
    self.named = Dictionary(
      groups.map { ($0.settings.name.lowercased(), $0) }, uniquingKeysWith: { first, _ in first })
    self.loop = loop
    self.budget = budget
    self.resolver = resolver
  }

  /// Calls back with the group for `authority` (`host`, `host:port`, `[::1]:port`), perhaps at once, or with the
  /// reason why there is none. Letters of either case name the same, as in a `proxy_pass` without variables.
  func find(_ authority: String, defaultPort: UInt16, _ found: @escaping (Found) -> Void) {
    if DynamicTarget.isSocket(authority.utf8) { return findSocket(String(authority.dropFirst(5)), found) }
    let authority = authority.lowercased()
    if let group = named[authority] { return found(.success(group)) }
    guard let parsed = try? HostPort(authority, bareIPv6: .isHost) else { return found(.failure(.unknownHost)) }
    let (host, port) = (parsed.host, parsed.port ?? defaultPort)
    let key = "\(host):\(port)"
    switch entries[key] {
    case .ready(let group, let expires) where expires > loop.now: return found(.success(group))
    case .resolving(let others):
      entries[key] = .resolving(others + [found])
      return
    case .ready(let group, _): group.close()
    case nil: break
    }
    if let address = SocketAddress(literal: host, port: port) {
      return found(.success(keep([address], of: nil, key: key)))
    }
    makeRoom()
    // Every entry still waits for the resolver.
    guard entries.count < Self.limit else { return found(.failure(.crowded)) }
    entries[key] = .resolving([found])
    let box = LoopBox(self)
    resolver.resolve(host, port: port, on: loop) { answer in
      box.value.resolved(key, answer, of: .name(host, port: port))
    }
  }

  private func findSocket(_ path: String, _ found: (Found) -> Void) {
    let key = "unix:\(path)"
    if case .ready(let group, _) = entries[key] { return found(.success(group)) }
    guard path.hasPrefix("/"), path.utf8.count <= SocketAddress.longestUnixPath else {
      return found(.failure(.unknownHost))
    }
    found(.success(keep([.unix(path: path)], of: nil, key: key)))
  }

  private func resolved(_ key: String, _ answer: Resolver.Answer, of name: UpstreamAddress) {
    guard case .resolving(let waiting) = entries[key] else { return }
    entries[key] = nil
    let result: Found =
      switch answer {
      case .addresses(let addresses) where addresses.isEmpty: .failure(.unknownHost)
      case .addresses(let addresses): .success(keep(addresses, of: name, key: key))
      case .tooManyNames: .failure(.crowded)
      }
    for found in waiting { found(result) }
  }

  /// `name`: what the addresses are of; nil for a literal one.
  private func keep(_ addresses: [SocketAddress], of name: UpstreamAddress?, key: String) -> UpstreamGroup {
    makeRoom()
    let place = SourceLocation(file: "proxy_pass", line: 0, column: 0)
    let settings = UpstreamGroupSettings(
      name: key,
      servers: addresses.map { UpstreamServerSettings(address: name ?? .address($0), location: place) },
      location: place)
    let resolved = ResolvedGroup(
      settings: settings,
      servers: zip(addresses, settings.servers).map { ResolvedGroup.Server(address: $0, settings: $1) })
    let group = UpstreamGroup(resolved, loop: loop, budget: budget)
    group.connector = connector
    entries[key] = .ready(group, expires: loop.now &+ Self.lifetime)
    return group
  }

  private func makeRoom() {
    guard entries.count >= Self.limit else { return }
    for (key, entry) in entries {
      if case .ready(let group, _) = entry {
        group.close()
        entries[key] = nil
        return
      }
    }
  }

  /// $proxy_host and $proxy_port of an authority, as nginx makes them: the default port is left out of the first.
  static func variables(of authority: String, defaultPort: UInt16) -> (host: [UInt8], port: [UInt8]) {
    if DynamicTarget.isSocket(authority.utf8) { return (Array("localhost".utf8), []) }
    let port = (try? HostPort(authority, bareIPv6: .isHost))?.port
    let suffix = ":\(defaultPort)"
    let saysDefault = port == defaultPort && authority.hasSuffix(suffix)
    return (
      Array((saysDefault ? String(authority.dropLast(suffix.count)) : authority).utf8),
      Array("\(port ?? defaultPort)".utf8)
    )
  }

  var made: [UpstreamGroup] {
    entries.values.compactMap { entry in
      if case .ready(let group, _) = entry { group } else { nil }
    }
  }

  func close() {
    for case .ready(let group, _) in entries.values { group.close() }
    entries.removeAll()
  }
}
