import Glibc
import HTTP
import Observability
import TLS
public import Transport

/// An upstream group in one worker: the balancer and the kept sessions. It has no lock, because each worker has its
/// own; with `zone`, the balancer alone is shared.
public final class UpstreamGroup {
  public let settings: UpstreamGroupSettings
  public let servers: [ResolvedGroup.Server]
  /// How many of `servers` are not marked `down`: as many tries an exchange has, as in nginx.
  public let usedServers: Int
  /// As $upstream_addr shows them.
  public let addressTexts: [[UInt8]]
  /// What `sticky` knows the servers by; empty without `sticky`.
  public let identifiers: [[UInt8]]
  let loop: EventLoop
  private let budget: ConnectionBudget
  /// Whether the choice of a server depends on the request.
  public let asksRequest: Bool
  /// Whether the method needs to know how long responses take.
  let measuresTime: Bool
  /// Whether the time that counts in a session of `stream` is that of its first byte.
  let measuresFirstByte: Bool
  private(set) var balancer: Balancer
  /// With `zone`, in place of `balancer`.
  let shared: SharedBalancer?
  /// With `resolve`, or if the API changes servers: where they come from, and the number of this list there.
  let list: GroupList?
  private let listNumber: UInt64
  private var failures: TroubledServers
  /// nil if no health check concerns the group.
  let health: GroupHealth?
  /// The count of changes that the balancer knows of.
  private var healthSeen: UInt64?
  /// Last in, first out: the warmest connection serves.
  private(set) var idle = IdleSessions()
  /// The sessions that speak HTTP/2 and take further attempts.
  private(set) var multiplexed: [HTTP2UpstreamSession] = []
  /// Makes the transport to a server in place of a socket: for tests without one.
  package typealias Connector = (_ server: Int, UpstreamTrust) throws(SocketError) -> ByteStream
  package var connector: Connector?
  public private(set) var isClosed = false
  public var meter: GroupMeter?
  /// By index in `servers`.
  var openSessions: [Int]
  /// Set while more sessions are idle than `keepalive` allows.
  /// Closes idle sessions above `keepalive`; nil: there are none.
  private var surplus: OneShotTimer?
  /// When the meters were written last.
  var sampledAt: UInt64 = 0
  /// Milliseconds that such a session stays idle before it is closed.
  private static let surplusTime = 1000

  /// The servers of a list as they are now.
  public convenience init(_ list: GroupList, loop: EventLoop, budget: ConnectionBudget) {
    let (group, number) = list.current
    self.init(group, list: (list, number), loop: loop, budget: budget)
  }

  /// `zones`: the shared states of groups with `zone`; nil: every state is this group's own.
  public convenience init(
    _ group: ResolvedGroup, health: GroupHealth? = nil, zones: GroupZones? = nil, loop: EventLoop,
    budget: ConnectionBudget
  ) {
    self.init(group, list: nil, health: health, zones: zones, loop: loop, budget: budget)
  }

  private init(
    _ group: ResolvedGroup, list: (list: GroupList, number: UInt64)?, health: GroupHealth? = nil,
    zones: GroupZones? = nil, loop: EventLoop, budget: ConnectionBudget
  ) {
    self.list = list?.list
    self.listNumber = list?.number ?? 0
    self.settings = group.settings
    self.health = health
    self.servers = group.servers
    self.usedServers = group.servers.count { !$0.settings.isDown }
    self.addressTexts = group.servers.map { Array($0.address.description.utf8) }
    self.identifiers = group.settings.isSticky ? group.servers.map(\.identifier) : []
    self.loop = loop
    self.budget = budget
    self.openSessions = group.servers.map { _ in 0 }
    self.failures = TroubledServers(servers: group.servers.count)
    self.asksRequest = group.settings.asksRequest
    self.measuresTime = group.settings.method.measuresTime
    self.measuresFirstByte = group.settings.method.time == .firstByte
    let plan = Balancer.Plan(group)
    self.shared =
      list?.list.balancer
      ?? zones.flatMap { zones in
        group.settings.zone.map { zones.balancer(zone: $0, group, isChecked: health != nil, plan) }
      }
    self.balancer = Balancer(shared == nil ? plan : Balancer.Plan(peers: []), seed: UInt64.random(in: 0 ... .max))
  }

  /// The same for all lists that a group with `resolve` has in this worker.
  public var identity: ObjectIdentifier { list.map { ObjectIdentifier($0) } ?? ObjectIdentifier(self) }
  /// Whether DNS has another list by now.
  public var isOutdated: Bool { list.map { $0.number != listNumber } ?? false }

  public var idleCount: Int { idle.count + multiplexed.count(where: \.isResting) }

  /// Picks the server of the next attempt, which counts as tried from now on, even if no connection to it opens. The
  /// caller must begin that attempt (`begin`): the methods that compare servers count it already. `again`: this server once more.
  /// nil: no server is left.
  // Apart from `begin`, and inout: a copy of the selection cost 250 instructions a request.
  public func pick(_ selection: inout Selection, again: Int? = nil) -> ServerTicket? {
    if let health { takeHealth(health) }
    guard let ticket = choose(&selection, again: again) else { return nil }
    selection.tried.insert(ticket.index)
    return ticket
  }

  /// Begins an attempt at the server of `ticket`; `observer` gets its events, perhaps before this returns. `isRetry`: over
  /// a new connection, because only the server's kept connection was dead. Over HTTP/2 it can be a session that others
  /// have begun since: an upstream that ends a session with many requests would get as many new ones otherwise. Returns a
  /// failure if no connection could be begun.
  public func begin(
    _ observer: AttemptObserver, on ticket: ServerTicket, trust: UpstreamTrust, settings: AttemptSettings, isRetry: Bool
  ) -> AttemptFailure? {
    let server = ticket.index
    if let kept = kept(server: server, trust: trust, settings.place, isRetry: isRetry) {
      kept.begin(observer, settings, on: ticket)
      return nil
    }
    guard budget.take() else {
      end(ticket, .unjudged, nil)
      return .noRoom
    }
    do {
      let session = try connect(to: server, trust: trust)
      session.place = settings.place
      session.begin(observer, settings, on: ticket)
      return nil
    } catch {
      // A lack of descriptors in this process says nothing about the server.
      end(ticket, error.isOurs ? .unjudged : .failure, nil)
      guard let proxy = trust.origin.proxy else { return .connect(error) }
      proxyDidFail()
      return .proxy(proxy.name, .connect(error))
    }
  }

  @inline(__always)
  private func choose(_ selection: inout Selection, again: Int?) -> ServerTicket? {
    if shared != nil { return pickShared(&selection, again: again) }
    if let again { return balancer.pick(again: again, now: loop.now) }
    return balancer.pick(now: loop.now, &selection)
  }

  @inline(never)
  private func pickShared(_ selection: inout Selection, again: Int?) -> ServerTicket? {
    let (now, before, number) = (loop.now, selection, listNumber)
    let picked = shared?.withLock { balancer -> (isCurrent: Bool, ticket: ServerTicket?, selection: Selection) in
      var selection = before
      guard balancer.list == number else { return (false, nil, selection) }
      if let again { return (true, balancer.pick(again: again, now: now), selection) }
      let ticket = balancer.pick(now: now, &selection)
      return (true, ticket, selection)
    }
    guard let picked else { return nil }
    guard picked.isCurrent else { return pickOfOwn(&selection, again: again) }
    guard let ticket = picked.ticket else { return nil }
    guard servers.indices.contains(ticket.index) else {
      end(ticket, .unjudged, nil)
      return nil
    }
    selection = picked.selection
    return ticket
  }

  /// The list has changed since. Exchanges that began with this one try those of its servers that are left.
  private func pickOfOwn(_ selection: inout Selection, again: Int?) -> ServerTicket? {
    guard let list else { return nil }
    if balancer.list != list.number {
      let (current, number) = list.current
      let left = Set(current.servers.map(\.address))
      var plan = Balancer.Plan(ResolvedGroup(settings: settings, servers: servers))
      for index in plan.peers.indices where !left.contains(servers[index].address) { plan.peers[index].isDown = true }
      if balancer.peers.isEmpty {
        balancer = Balancer(plan, seed: UInt64.random(in: 0 ... .max), serials: ServerTicket.ownSerials)
      }
      balancer.replace(plan, list: number)
    }
    if let again { return balancer.pick(again: again, now: loop.now) }
    return balancer.pick(now: loop.now, &selection)
  }

  /// Ends an attempt, which counts for the server of its own ticket, whatever lists and groups there are since.
  func end(_ ticket: ServerTicket, _ result: Balancer.AttemptResult, _ times: AttemptTimes?) {
    let now = loop.now
    if let shared, !ticket.isOwn {
      shared.withLock { $0.end(ticket, result, times, now: now) }
    } else {
      balancer.end(ticket, result, times, now: now)
    }
  }

  /// What checks have found of a server; nil if no check concerns it.
  public func healthCounts(of address: SocketAddress) -> HealthCounts? {
    health.flatMap { health in servers.firstIndex { $0.address == address }.flatMap(health.counts) }
  }

  /// Tells the balancer which servers are healthy, if that has changed.
  @inline(never)
  private func takeHealth(_ health: GroupHealth) {
    let count = health.changeCount
    // The checks of a former generation are over, and the state may be the next generation's too.
    guard count != healthSeen, !isClosed else { return }
    healthSeen = count
    let now = loop.now
    for server in servers.indices {
      let isUp = health.isUp(server)
      if let shared {
        shared.withLock { $0.setHealth(of: server, isHealthy: isUp, now: now) }
      } else {
        balancer.setHealth(of: server, isHealthy: isUp, now: now)
      }
    }
  }

  private func kept(server: Int, trust: UpstreamTrust, _ place: ObjectIdentifier?, isRetry: Bool) -> UpstreamSession? {
    switch trust.connection {
    case .http1, .wire: return isRetry ? nil : takeKept(server: server, trust: trust, place)
    case .http2:
      while let candidate = multiplexed.last(where: {
        $0.hasRoom && (!isRetry || $0.isProven) && $0.serves(server, trust, local(place))
      }) {
        if candidate.isStillTrusted { return candidate }
        // An upstream that isn't trusted any more gets no further request; the next handshake tells why.
        candidate.leave()
      }
      return nil
    case .tcp: return nil
    }
  }

  /// The only location whose sessions serve, by `keepalive … local`; `.some(nil)` is that of no location.
  @inline(__always)
  private func local(_ place: ObjectIdentifier?) -> ObjectIdentifier?? {
    settings.keepalive.isLocal ? .some(place) : nil
  }

  private func takeKept(server: Int, trust: UpstreamTrust, _ place: ObjectIdentifier?) -> SerialUpstreamSession? {
    let place = local(place)
    while let candidate = idle.takeNewest(of: server, where: { $0.serves(server, trust, place) }) {
      if !candidate.mayHaveInput, candidate.isStillTrusted { return candidate }
      // Unexpected bytes have arrived, and the loop hasn't handled their event yet, or the upstream's certificate has
      // ended.
      candidate.close()
    }
    return nil
  }

  /// Opens a session, for which the caller has taken a place in the budget.
  private func connect(to server: Int, trust: UpstreamTrust) throws(SocketError) -> UpstreamSession {
    guard let proxy = trust.origin.proxy else {
      return try connect(to: server, at: servers[server].address, trust: trust)
    }
    let address = proxy.addresses[proxyTurn % proxy.addresses.count]
    if case .address(.unix) = servers[server].settings.address {
      budget.giveBack()
      // No proxy reaches a socket of this machine's file system.
      throw SocketError("connect", EAFNOSUPPORT)
    }
    let session = try connect(to: server, at: address, trust: trust)
    session.ask(proxy, for: servers[server].settings.address.description)
    return session
  }

  /// Which address of a proxy the next connection goes to: the one that has worked.
  private var proxyTurn = 0
  func proxyDidFail() { proxyTurn = (proxyTurn + 1) & 0xFFFF }

  /// `target`: where the socket connects, the server's own address or that of a proxy.
  private func connect(
    to server: Int, at target: SocketAddress, trust: UpstreamTrust
  ) throws(SocketError) -> UpstreamSession {
    do {
      if let connector { return session(try connector(server, trust), nil, server, trust) }
      let address = servers[server].address
      let header = trust.origin.proxy == nil ? trust.origin.header : []
      let descriptor = try Sockets.connect(to: target, origin: trust.origin)
      guard let context = trust.context else {
        let stream = try ByteStream(loop: loop, descriptor: descriptor, isConnecting: true)
        stream.preamble = header
        return session(stream, nil, server, trust)
      }
      let stream = try TLSStream(
        connecting: descriptor, loop: loop, context: context, name: trust.name, address: address.description,
        protocols: trust.protocols)
      stream.preamble = header
      return session(stream, stream, server, trust)
    } catch {
      budget.giveBack()
      throw error
    }
  }

  private func session(
    _ transport: ByteStream, _ tls: TLSStream?, _ server: Int, _ trust: UpstreamTrust
  ) -> UpstreamSession {
    noteOpened(server)
    switch trust.connection {
    case .http1, .wire:
      return SerialUpstreamSession(transport: transport, tls: tls, server: server, trust: trust, group: self)
    case .http2:
      let session = HTTP2UpstreamSession(transport: transport, tls: tls, server: server, trust: trust, group: self)
      multiplexed.append(session)
      return session
    case .tcp: return TCPUpstreamSession(transport: transport, tls: tls, server: server, trust: trust, group: self)
    }
  }

  // MARK: Failures

  /// Whether a server failed and has not recovered; checked for each response.
  public var hasFailures: Bool { !failures.isEmpty }

  public func isTroubled(_ server: Int) -> Bool { failures.contains(server) }
  public func didFail(_ server: Int) { failures.insert(server) }
  public func didRecover(_ server: Int) { failures.remove(server) }

  /// Takes over which servers the error log says are down (`FaultLog.down`): a response of one is its recovery, although
  /// another generation saw the failures.
  package func takeOver(down subjects: Set<String>) {
    if subjects.isEmpty { return }
    for server in servers.indices where subjects.contains(description(of: server)) { didFail(server) }
  }

  /// `upstream "NAME": server ADDRESS`, or without the server, for the error log.
  public func description(of server: Int?) -> String {
    guard let server, servers.indices.contains(server) else { return "upstream \"\(settings.name)\"" }
    return "upstream \"\(settings.name)\": server \(servers[server].address)"
  }

  // MARK: Events of sessions

  /// The server of the attempt has taken its connection, so that earlier failures may count no longer.
  func didConnect(_ ticket: ServerTicket) {
    let now = loop.now
    if let shared, !ticket.isOwn {
      shared.withLock { $0.didConnect(ticket, now: now) }
    } else {
      balancer.didConnect(ticket, now: now)
    }
  }

  /// The head of a response came so many milliseconds after its attempt began. Only groups that measure times need it.
  func headDidCome(_ ticket: ServerTicket, after age: UInt64) {
    let now = loop.now
    if let shared, !ticket.isOwn {
      shared.withLock { $0.headDidCome(ticket, after: age, now: now) }
    } else {
      balancer.headDidCome(ticket, after: age, now: now)
    }
  }

  /// Keeps an idle session, or closes it at the limits of `keepalive_requests` and `keepalive_time`.
  func keep(_ session: SerialUpstreamSession) {
    let keepalive = settings.keepalive
    guard !isClosed, keepalive.connections > 0, session.requestsServed < keepalive.requests,
      loop.now &- session.openedAt < UInt64(max(0, keepalive.time))
    else { return session.close() }
    session.idleSince = loop.now
    idle.append(session)
    session.transport.setDeadline(in: keepalive.timeout)
    if idle.count > keepalive.connections { limitIdle() }
  }

  /// Closes sessions above `keepalive`, once they have been idle for a second. A burst of requests that ends and begins
  /// again within that time needs no new handshakes: 16 clients of 8 streams each cost 84 µs a request with them, and less than half
  /// of that without. Four times `keepalive` is the most at any moment.
  @inline(never)
  private func limitIdle() {
    let limit = settings.keepalive.connections
    if (idle.count - 1) / 4 >= limit { idle.takeOldest()?.close() }
    if surplus == nil { watchSurplus() }
  }

  private func watchSurplus() {
    surplus = loop.after(Self.surplusTime) { [weak self] in
      guard let self, closeSurplus(now: loop.now) else { return }
      watchSurplus()
    }
  }

  /// Closes the sessions above `keepalive` that were not used for a second. Returns whether others are left.
  package func closeSurplus(now: UInt64) -> Bool {
    let limit = settings.keepalive.connections
    while idle.count > limit, let oldest = idle.oldest, now &- oldest.idleSince >= UInt64(Self.surplusTime) {
      idle.takeOldest()?.close()
    }
    if idle.count > limit { return true }
    surplus = nil
    return false
  }

  /// The time since which the session that has been idle longest is idle; nil without idle sessions.
  public var oldestIdle: UInt64? {
    guard let resting = oldestResting else { return idle.oldest?.idleSince }
    return min(resting.idleSince, idle.oldest?.idleSince ?? .max)
  }

  /// Closes the session that has been idle longest, to make room.
  public func closeOldestIdle() {
    if let resting = oldestResting, resting.idleSince <= idle.oldest?.idleSince ?? .max { return resting.close() }
    idle.takeOldest()?.close()
  }

  private var oldestResting: HTTP2UpstreamSession? {
    multiplexed.lazy.filter(\.isResting).min { $0.idleSince < $1.idleSince }
  }

  func forget(_ session: SerialUpstreamSession) { idle.remove(session) }

  /// Begins no further attempt on a session that speaks HTTP/2.
  func forget(_ session: HTTP2UpstreamSession) { multiplexed.removeAll { $0 === session } }

  func sessionDidClose(_ server: Int) {
    budget.giveBack()
    noteClosed(server)
  }

  /// Closes the idle sessions. A session that serves an attempt closes after it.
  public func close() {
    isClosed = true
    surplus?.cancel()
    surplus = nil
    for connection in idle.takeAll() { connection.close() }
    for session in multiplexed { if session.isIdle { session.close() } else { session.retire() } }
  }
}

// Methods that aren't inlined: within a method, the object's own properties count no references.
extension UpstreamSession {
  @inline(never)
  fileprivate func serves(_ server: Int, _ trust: UpstreamTrust, _ place: ObjectIdentifier??) -> Bool {
    guard self.server == server, self.trust.isSame(as: trust) else { return false }
    return if let place { self.place == place } else { true }
  }

  @inline(never)
  fileprivate var mayHaveInput: Bool { transport.mayHaveInput }
}
