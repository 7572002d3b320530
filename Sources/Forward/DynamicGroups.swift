import Bytes
package import DNS
import Observability
package import Traffic
package import Transport
package import Upstream

/// Groups of `proxy_pass` targets with variables, made as they are asked for.
///
/// An upstream block of that name counts first, then a literal address, then a name. With `resolver`, the DNS servers are
/// asked, and a group lasts as long as its name's addresses. Otherwise the system is asked, again after `lifetime`.
/// Bounded: a client that chooses names can't fill the memory. The group that was used least recently makes room.
package final class DynamicGroups {
  /// How long an answer of the system counts, in milliseconds.
  private let lifetime: UInt64
  private static let limit = 1024

  package typealias Found = Result<UpstreamGroup, Refusal>

  /// Why there is no group.
  package enum Refusal: Error {
    case unknownHost
    /// The host is an IPv6 address with a zone (RFC 6874), such as `fe80::1%eth0`. An address would be used without it, and lead
    /// nowhere, or to another link.
    case zone
    /// Too many names are being looked up.
    case crowded
    /// What the servers of `resolver` said of this host.
    case dns(host: String, DNSFailure)
  }

  /// An open question to DNS servers, so that who asked can leave.
  package struct Question {
    fileprivate let resolver: DNSResolver
    fileprivate let ticket: DNSResolver.Ticket
    package func withdraw() { resolver.withdraw(ticket) }
  }

  private struct Key: Hashable {
    let authority: String
    /// nil: the system's.
    var resolver: ObjectIdentifier?
  }

  /// A group, which lasts as long as its name has these addresses: its connections and what is known of its servers.
  private struct Made {
    let group: UpstreamGroup
    let addresses: Set<SocketAddress>
  }

  private enum Entry {
    /// `expires`: from when on the addresses must be asked for; nil for addresses that the key is, or that a `resolver`
    /// gives for each request.
    case ready(Made, expires: UInt64?)
    /// The system is being asked. `former`: what was made of its last answer, and serves nobody meanwhile.
    case resolving([(Found) -> Void], former: Made?)

    var made: Made? {
      switch self {
      case .ready(let made, _): made
      case .resolving(_, let former): former
      }
    }
  }

  private let named: [String: UpstreamGroup]
  private let followed: [String: FollowedGroup]
  /// That of every group that is made: for tests without a socket.
  var connector: UpstreamGroup.Connector?
  /// nil if no location shows metrics.
  package var meters: GroupMeters?
  private var entries = LRUTable<Key, Entry>()
  private let isOfStream: Bool
  private let loop: EventLoop
  private let budget: ConnectionBudget
  private let resolver: Resolver

  /// `followed`: those of `groups` with `resolve`.
  package init(
    groups: [UpstreamGroup], followed: [FollowedGroup] = [], isOfStream: Bool = false, resolver: Resolver,
    loop: EventLoop, budget: ConnectionBudget, lifetime: UInt64 = 30_000
  ) {
    self.isOfStream = isOfStream
    self.lifetime = lifetime
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
  package func find(
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
    guard !host.utf8.contains(UInt8(ascii: "%")) else {
      found(.failure(.zone))
      return nil
    }
    if let names, SocketAddress(literal: host, port: port) == nil { return ask(names, host, port, found) }
    findBySystem(host, port, found)
    return nil
  }

  /// Whether this is the name of an upstream group.
  func isGroup(_ name: String) -> Bool { named[name.lowercased()] != nil }

  /// The upstream group of this name.
  package func group(named name: String) -> UpstreamGroup? {
    let lower = name.lowercased()
    return named[lower].map { followed[lower]?.newest() ?? $0 }
  }

  private func findBySystem(_ host: String, _ port: UInt16, _ found: @escaping (Found) -> Void) {
    let key = Key(authority: "\(host):\(port)")
    let place = entries.place(of: key)
    switch place.flatMap({ entries[$0] }) {
    case .ready(let made, let expires) where expires.map({ $0 > loop.now }) ?? true:
      if let place { entries.use(place) }
      return found(.success(made.group))
    case .resolving(let others, let former):
      entries.insert(.resolving(others + [found], former: former), for: key)
      return
    case .ready(let made, _): entries.insert(.resolving([found], former: made), for: key)
    case nil:
      if let address = SocketAddress(literal: host, port: port) {
        return found(.success(group(of: [address], name: nil, key: key)))
      }
      // Every entry still waits for the resolver.
      guard makeRoom() else { return found(.failure(.crowded)) }
      entries.insert(.resolving([found], former: nil), for: key)
    }
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

  /// The group for a name with these addresses: the one that there is, if it has the same ones. `name`: nil for a literal
  /// address. `expires`: as in `Entry`.
  private func group(
    of addresses: [SocketAddress], name: UpstreamAddress?, key: Key, expires: UInt64? = nil
  ) -> UpstreamGroup {
    let all = Set(addresses)
    let place = entries.place(of: key)
    if let former = place.flatMap({ entries[$0]?.made }) {
      if former.addresses == all {
        entries.insert(.ready(former, expires: expires), for: key)
        return former.group
      }
      former.group.close()
    }
    // A group is made even if every entry waits for the resolver: their number is bounded, so this one's is.
    if place == nil { _ = makeRoom() }
    let made = Made(group: make(addresses, of: name, key: key), addresses: all)
    entries.insert(.ready(made, expires: expires), for: key)
    return made.group
  }

  private func findSocket(_ path: String, _ found: (Found) -> Void) {
    let key = Key(authority: "unix:\(path)")
    guard path.hasPrefix("/"), path.utf8.count <= SocketAddress.longestUnixPath else {
      return found(.failure(.unknownHost))
    }
    found(.success(group(of: [.unix(path: path)], name: nil, key: key)))
  }

  private func resolved(_ key: Key, _ answer: Resolver.Answer, of name: UpstreamAddress) {
    guard let place = entries.place(of: key), case .resolving(let waiting, let former) = entries[place] else { return }
    let result: Found
    switch answer {
    case .addresses(let addresses) where !addresses.isEmpty:
      result = .success(group(of: addresses, name: name, key: key, expires: loop.now &+ lifetime))
    case .addresses, .tooManyNames:
      // No request goes out by what was known. The next one asks again.
      if let former { entries[place] = .ready(former, expires: 0) } else { entries.remove(place) }
      result = .failure(answer == .tooManyNames ? .crowded : .unknownHost)
    }
    for found in waiting { found(result) }
  }

  private func make(_ addresses: [SocketAddress], of name: UpstreamAddress?, key: Key) -> UpstreamGroup {
    let place = SourceLocation(file: key.authority, line: 0, column: 0)
    var settings = UpstreamGroupSettings(
      name: key.authority,
      servers: addresses.map { UpstreamServerSettings(address: name ?? .address($0), location: place) },
      location: place)
    settings.triesFailedServers = true
    settings.isOfStream = isOfStream
    let resolved = ResolvedGroup(
      settings: settings,
      servers: zip(addresses, settings.servers).map { ResolvedGroup.Server(address: $0, settings: $1) })
    let group = UpstreamGroup(resolved, loop: loop, budget: budget)
    group.connector = connector
    group.meter = meters?.meter(ofMade: group)
    return group
  }

  /// Drops the group that was used least recently if there are as many entries as may be. Returns whether there is room.
  private func makeRoom() -> Bool {
    switch entries.makeRoom(limit: Self.limit, where: { if case .ready = $0 { true } else { false } }) {
    case .free: return true
    case .made(let entry):
      entry.made?.group.close()
      return true
    case .none: return false
    }
  }

  /// $proxy_host and $proxy_port of an authority, as nginx makes them: the default port is left out of the first.
  package static func variables(of authority: String, defaultPort: UInt16?) -> (host: [UInt8], port: [UInt8]) {
    if DynamicTarget.isSocket(authority.utf8) { return (Array("localhost".utf8), []) }
    let said = (try? HostPort(authority, bareIPv6: .isHost))?.port
    let port = (said ?? defaultPort).map { "\($0)" } ?? ""
    let saysDefault = said != nil && said == defaultPort && authority.hasSuffix(":\(port)")
    return (Array((saysDefault ? String(authority.dropLast(port.count + 1)) : authority).utf8), Array(port.utf8))
  }

  package var made: [UpstreamGroup] { entries.all.compactMap(\.value.made?.group) }

  package func close() {
    for group in made { group.close() }
    entries = LRUTable()
  }
}
