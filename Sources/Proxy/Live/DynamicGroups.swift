import Bytes
import DNS
import Observability
import Transport
import Upstream

/// Groups of `proxy_pass` targets with variables, made as they are asked for.
///
/// An upstream block of that name counts first, then a literal address, then a name. With `resolver`, the DNS servers are
/// asked, and a group lasts as long as its name's addresses. Otherwise the system is asked, again after `lifetime`.
/// Bounded: a client that chooses names can't fill the memory.
final class DynamicGroups {
  private static let lifetime: UInt64 = 30_000
  private static let limit = 1024

  typealias Found = Result<UpstreamGroup, Refusal>

  /// Why there is no group.
  enum Refusal: Error {
    case unknownHost
    /// Too many names are being looked up.
    case crowded
    /// What the servers of `resolver` said of this host.
    case dns(host: String, DNSFailure)
  }

  /// An open question to DNS servers, so that who asked can leave.
  struct Question {
    fileprivate let resolver: DNSResolver
    fileprivate let ticket: DNSResolver.Ticket
    func withdraw() { resolver.withdraw(ticket) }
  }

  private struct Key: Hashable {
    let authority: String
    /// nil: the system's.
    var resolver: ObjectIdentifier?
  }

  private enum Entry {
    case ready(UpstreamGroup, expires: UInt64)
    /// Of a name that a `resolver` has resolved to these addresses.
    case answered(UpstreamGroup, Set<SocketAddress>)
    case resolving([(Found) -> Void])

    var group: UpstreamGroup? {
      switch self {
      case .ready(let group, _), .answered(let group, _): group
      case .resolving: nil
      }
    }
  }

  private let named: [String: UpstreamGroup]
  private let followed: [String: FollowedGroup]
  /// That of every group that is made: for tests without a socket.
  var connector: UpstreamGroup.Connector?
  /// nil if no location shows metrics.
  var meters: GroupMeters?
  private var entries: [Key: Entry] = [:]
  private let loop: EventLoop
  private let budget: ConnectionBudget
  private let resolver: Resolver

  /// `followed`: those of `groups` with `resolve`.
  init(
    groups: [UpstreamGroup], followed: [FollowedGroup] = [], resolver: Resolver, loop: EventLoop,
    budget: ConnectionBudget
  ) {
    self.named = Dictionary(
      groups.map { ($0.settings.name.lowercased(), $0) }, uniquingKeysWith: { first, _ in first })
    self.followed = Dictionary(
      followed.map { ($0.current.settings.name.lowercased(), $0) }, uniquingKeysWith: { first, _ in first })
    self.loop = loop
    self.budget = budget
    self.resolver = resolver
  }

  /// Calls back with the group for `authority` (`host`, `host:port`, `[::1]:port`), perhaps at once, or with the
  /// reason why there is none. Letters of either case name the same, as in a `proxy_pass` without variables.
  /// `names`: the `resolver` in effect. Returns the question if one is open there.
  @discardableResult
  func find(
    _ authority: String, defaultPort: UInt16, by names: LiveNames? = nil, _ found: @escaping (Found) -> Void
  ) -> Question? {
    if DynamicTarget.isSocket(authority.utf8) {
      findSocket(String(authority.dropFirst(5)), found)
      return nil
    }
    let lower = authority.lowercased()
    if let group = named[lower] {
      found(.success(followed[lower]?.newest() ?? group))
      return nil
    }
    guard let parsed = try? HostPort(lower, bareIPv6: .isHost) else {
      found(.failure(.unknownHost))
      return nil
    }
    let (host, port) = (parsed.host, parsed.port ?? defaultPort)
    if let names, SocketAddress(literal: host, port: port) == nil { return ask(names, host, port, found) }
    findBySystem(host, port, found)
    return nil
  }

  private func findBySystem(_ host: String, _ port: UInt16, _ found: @escaping (Found) -> Void) {
    let key = Key(authority: "\(host):\(port)")
    switch entries[key] {
    case .ready(let group, let expires) where expires > loop.now: return found(.success(group))
    case .answered(let group, _): return found(.success(group))
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

  /// The resolver keeps answers for as long as they count; an answer with the same addresses has the same group.
  private func ask(
    _ names: LiveNames, _ host: String, _ port: UInt16, _ found: @escaping (Found) -> Void
  ) -> Question? {
    guard let name = DNSName(host) else {
      found(.failure(.dns(host: host, .invalidName)))
      return nil
    }
    let key = Key(authority: "\(name):\(port)", resolver: ObjectIdentifier(names.resolver))
    let ticket = names.resolver.resolve(DNSQuestion(name, .addresses), timeout: names.timeout) { [self] result in
      switch result {
      case .success(let records):
        let addresses = records.addresses.map { $0.withPort(port) }
        found(.success(group(of: addresses, name: .name(host, port: port), key: key)))
      case .failure(let reason): found(.failure(.dns(host: host, reason)))
      }
    }
    return ticket.map { Question(resolver: names.resolver, ticket: $0) }
  }

  private func group(of addresses: [SocketAddress], name: UpstreamAddress, key: Key) -> UpstreamGroup {
    let all = Set(addresses)
    if case .answered(let group, let former) = entries[key] {
      if former == all { return group }
      group.close()
      entries[key] = nil
    }
    let group = keep(addresses, of: name, key: key)
    entries[key] = .answered(group, all)
    return group
  }

  private func findSocket(_ path: String, _ found: (Found) -> Void) {
    let key = Key(authority: "unix:\(path)")
    if case .ready(let group, _) = entries[key] { return found(.success(group)) }
    guard path.hasPrefix("/"), path.utf8.count <= SocketAddress.longestUnixPath else {
      return found(.failure(.unknownHost))
    }
    found(.success(keep([.unix(path: path)], of: nil, key: key)))
  }

  private func resolved(_ key: Key, _ answer: Resolver.Answer, of name: UpstreamAddress) {
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
  private func keep(_ addresses: [SocketAddress], of name: UpstreamAddress?, key: Key) -> UpstreamGroup {
    makeRoom()
    let place = SourceLocation(file: "proxy_pass", line: 0, column: 0)
    let settings = UpstreamGroupSettings(
      name: key.authority,
      servers: addresses.map { UpstreamServerSettings(address: name ?? .address($0), location: place) },
      location: place)
    let resolved = ResolvedGroup(
      settings: settings,
      servers: zip(addresses, settings.servers).map { ResolvedGroup.Server(address: $0, settings: $1) })
    let group = UpstreamGroup(resolved, loop: loop, budget: budget)
    group.connector = connector
    group.meter = meters?.meter(ofMade: group)
    entries[key] = .ready(group, expires: loop.now &+ Self.lifetime)
    return group
  }

  private func makeRoom() {
    guard entries.count >= Self.limit else { return }
    for (key, entry) in entries {
      if let group = entry.group {
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

  var made: [UpstreamGroup] { entries.values.compactMap(\.group) }

  func close() {
    for group in made { group.close() }
    entries.removeAll()
  }
}
