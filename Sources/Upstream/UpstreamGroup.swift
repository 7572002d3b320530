public import HTTP
public import Observability
public import TLS
public import Transport

/// A group whose names were resolved, at start or reload.
public struct ResolvedGroup: Sendable {
  public struct Server: Sendable {
    public var address: SocketAddress
    public var settings: UpstreamServerSettings
    public init(address: SocketAddress, settings: UpstreamServerSettings) {
      self.address = address
      self.settings = settings
    }
  }

  public var settings: UpstreamGroupSettings
  public var servers: [Server]

  public init(settings: UpstreamGroupSettings, servers: [Server]) {
    self.settings = settings
    self.servers = servers
  }
}

/// The policy and the name by which an upstream is verified, and the user of its connections. An attempt never uses a
/// kept session with another trust.
public final class UpstreamTrust: Sendable {
  /// nil: plain HTTP.
  public let context: UpstreamTLSContext?
  public let name: String
  /// Whether the connection speaks HTTP/2. With TLS, the context offers it by ALPN.
  public let speaksHTTP2: Bool
  /// The user that connections are authenticated as (NTLM); compared by identity.
  package let user: (any AnyObject & Sendable)?
  /// How its connections begin.
  public let origin: ConnectionOrigin

  public init(
    context: UpstreamTLSContext?, name: String, speaksHTTP2: Bool = false, origin: ConnectionOrigin = ConnectionOrigin()
  ) {
    self.context = context
    self.name = context == nil ? "" : name
    self.speaksHTTP2 = speaksHTTP2
    self.origin = origin
    user = nil
  }

  package init(
    context: UpstreamTLSContext?, name: String, speaksHTTP2: Bool, boundTo user: (any AnyObject & Sendable)?,
    origin: ConnectionOrigin = ConnectionOrigin()
  ) {
    self.origin = origin
    self.context = context
    self.speaksHTTP2 = speaksHTTP2
    self.name = context == nil ? "" : name
    self.user = user
  }

  func isSame(as other: UpstreamTrust) -> Bool {
    self === other
      || (context === other.context && name == other.name && user === other.user && speaksHTTP2 == other.speaksHTTP2
        && origin == other.origin)
  }
}

/// What an attempt needs to know besides the group.
public struct AttemptSettings: Sendable {
  public var timeouts: UpstreamTimeouts
  public var headLimits: HeadLimits
  public init(timeouts: UpstreamTimeouts, headLimits: HeadLimits) {
    self.timeouts = timeouts
    self.headLimits = headLimits
  }
}

/// An upstream group in one worker: the balancer and the kept sessions. It has no lock, because each worker has its
/// own.
public final class UpstreamGroup {
  public let settings: UpstreamGroupSettings
  public let servers: [ResolvedGroup.Server]
  /// How many of `servers` are not marked `down`: as many tries an exchange has, as in nginx.
  public let usedServers: Int
  /// As $upstream_addr shows them.
  public let addressTexts: [[UInt8]]
  fileprivate let loop: EventLoop
  private let budget: ConnectionBudget
  private var balancer: Balancer
  private var failures: ServerFailures
  /// nil if no health check concerns the group.
  private let health: GroupHealth?
  /// The count of changes that the balancer knows of.
  private var healthSeen: UInt64?
  /// Last in, first out: the warmest connection serves.
  private var idle: [HTTP1UpstreamSession] = []
  /// The sessions that speak HTTP/2 and take further attempts.
  private var shared: [HTTP2UpstreamSession] = []
  /// Makes the transport to a server in place of a socket: for tests without one.
  package typealias Connector = (_ server: Int, UpstreamTrust) throws(SocketError) -> ByteStream
  package var connector: Connector?
  private(set) var isClosed = false
  /// Set while more sessions are idle than `keepalive` allows.
  private var surplus: Surplus?

  public init(_ group: ResolvedGroup, health: GroupHealth? = nil, loop: EventLoop, budget: ConnectionBudget) {
    self.settings = group.settings
    self.health = health
    self.servers = group.servers
    self.usedServers = group.servers.count { !$0.settings.isDown }
    self.addressTexts = group.servers.map { Array($0.address.description.utf8) }
    self.loop = loop
    self.budget = budget
    self.failures = ServerFailures(servers: group.servers.count)
    self.balancer = Balancer(
      peers: group.servers.map { server in
        Balancer.Peer(
          weight: server.settings.weight, maxFails: server.settings.maxFails,
          failTimeout: UInt64(max(0, server.settings.failTimeout)) &* 1000,
          maxConnections: server.settings.maxConnections, isBackup: server.settings.isBackup,
          isDown: server.settings.isDown)
      })
  }

  public var idleCount: Int { idle.count + shared.count(where: \.isResting) }

  /// Begins an attempt; `observer` gets its events, perhaps before this returns. `again`: tries this server once more,
  /// over a new connection, because only its kept connection was dead. Over HTTP/2 it can be a session that others have
  /// begun since: an upstream that ends a session with many requests would get as many new ones otherwise. Returns a failure if no connection could be
  /// begun.
  public func attempt(
    _ observer: AttemptObserver, trust: UpstreamTrust, settings: AttemptSettings, tried: TriedServers,
    again: Int? = nil
  ) -> AttemptFailure? {
    if let health { takeHealth(health) }
    var untried = tried
    if let again { untried = TriedServers(allBut: again, of: servers.count) }
    guard let server = balancer.pick(now: loop.now, tried: untried) else { return .noServer }
    observer.attemptWillTry(server)
    if let kept = kept(server: server, trust: trust, isRetry: again != nil) {
      kept.begin(observer, settings)
      return nil
    }
    guard budget.take() else {
      balancer.end(server, .unjudged, now: loop.now)
      return .noRoom
    }
    do {
      let session = try connect(to: server, trust: trust)
      session.begin(observer, settings)
      return nil
    } catch {
      // A lack of descriptors in this process says nothing about the server.
      balancer.end(server, error.isOurs ? .unjudged : .failure, now: loop.now)
      return .connect(error)
    }
  }

  /// Tells the balancer which servers are healthy, if that has changed.
  @inline(never)
  private func takeHealth(_ health: GroupHealth) {
    let count = health.changeCount
    guard count != healthSeen else { return }
    healthSeen = count
    for server in servers.indices { balancer.setHealth(of: server, isHealthy: health.isUp(server)) }
  }

  private func kept(server: Int, trust: UpstreamTrust, isRetry: Bool) -> UpstreamSession? {
    if trust.speaksHTTP2 {
      return shared.last { $0.hasRoom && (!isRetry || $0.isProven) && $0.serves(server, trust) }
    }
    return isRetry ? nil : takeKept(server: server, trust: trust)
  }

  private func takeKept(server: Int, trust: UpstreamTrust) -> HTTP1UpstreamSession? {
    var index = idle.count - 1
    while index >= 0 {
      if idle[index].serves(server, trust) {
        // Mostly the last one.
        let candidate = index == idle.count - 1 ? idle.removeLast() : idle.remove(at: index)
        if !candidate.mayHaveInput { return candidate }
        // Unexpected bytes have arrived, and the loop hasn't handled their event yet.
        candidate.close()
      }
      index -= 1
    }
    return nil
  }

  /// Opens a session, for which the caller has taken a place in the budget.
  private func connect(to server: Int, trust: UpstreamTrust) throws(SocketError) -> UpstreamSession {
    do {
      if let connector { return session(try connector(server, trust), nil, server, trust) }
      let address = servers[server].address
      let descriptor = try Sockets.connect(to: address, origin: trust.origin)
      guard let context = trust.context else {
        let stream = try ByteStream(loop: loop, descriptor: descriptor, isConnecting: true)
        stream.preamble = trust.origin.header
        return session(stream, nil, server, trust)
      }
      let stream = try TLSStream(
        connecting: descriptor, loop: loop, context: context, name: trust.name, address: address.description)
      stream.preamble = trust.origin.header
      return session(stream, stream, server, trust)
    } catch {
      budget.giveBack()
      throw error
    }
  }

  private func session(
    _ transport: ByteStream, _ tls: TLSStream?, _ server: Int, _ trust: UpstreamTrust
  ) -> UpstreamSession {
    guard trust.speaksHTTP2 else {
      return HTTP1UpstreamSession(transport: transport, tls: tls, server: server, trust: trust, group: self)
    }
    let session = HTTP2UpstreamSession(transport: transport, tls: tls, server: server, trust: trust, group: self)
    shared.append(session)
    return session
  }

  // MARK: Failures

  /// Whether `answered` may return a value; checked for each response.
  public var hasFailures: Bool { !failures.isEmpty }

  /// Decides whether the error log gets a failure. `server`: nil for a failure of no server.
  public func failed(_ server: Int?, _ text: String, now: UInt64) -> RepeatedLines.Choice {
    failures.failed(server, text, now: now)
  }

  /// Notes a complete response. Returns how many failures came before, and the milliseconds since the first of them;
  /// nil if the log needs no line.
  public func answered(_ server: Int, now: UInt64) -> (failures: UInt64, milliseconds: UInt64)? {
    failures.answered(server, now: now)
  }

  // MARK: Events of sessions

  func attemptDidEnd(_ session: UpstreamSession, _ outcome: Balancer.AttemptResult) {
    balancer.end(session.server, outcome, now: loop.now)
  }

  /// Keeps an idle session, or closes it at the limits of `keepalive_requests` and `keepalive_time`.
  func keep(_ session: HTTP1UpstreamSession) {
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
    if (idle.count - 1) / 4 >= limit { idle.removeFirst().close() }
    if surplus == nil { surplus = Surplus(self) }
  }

  /// Closes the sessions above `keepalive` that were not used for a second. Returns whether others are left.
  package func closeSurplus(now: UInt64) -> Bool {
    let limit = settings.keepalive.connections
    while idle.count > limit, let oldest = idle.first, now &- oldest.idleSince >= UInt64(Surplus.time) {
      idle.removeFirst().close()
    }
    if idle.count > limit { return true }
    surplus = nil
    return false
  }

  /// The time since which the session that has been idle longest is idle; nil without idle sessions.
  public var oldestIdle: UInt64? {
    guard let resting = oldestResting else { return idle.first?.idleSince }
    return min(resting.idleSince, idle.first?.idleSince ?? .max)
  }

  /// Closes the session that has been idle longest, to make room.
  public func closeOldestIdle() {
    if let resting = oldestResting, resting.idleSince <= idle.first?.idleSince ?? .max { return resting.close() }
    guard !idle.isEmpty else { return }
    idle.removeFirst().close()
  }

  private var oldestResting: HTTP2UpstreamSession? {
    shared.lazy.filter(\.isResting).min { $0.idleSince < $1.idleSince }
  }

  func forget(_ session: HTTP1UpstreamSession) { idle.removeAll { $0 === session } }

  /// Begins no further attempt on a session that speaks HTTP/2.
  func forget(_ session: HTTP2UpstreamSession) { shared.removeAll { $0 === session } }

  func sessionDidClose() { budget.giveBack() }

  /// Closes the idle sessions. A session that serves an attempt closes after it.
  public func close() {
    isClosed = true
    surplus?.stop()
    surplus = nil
    let connections = idle
    idle.removeAll()
    for connection in connections { connection.close() }
    for session in shared { if session.isIdle { session.close() } else { session.retire() } }
  }
}

/// The deadline after which a group closes its surplus of idle sessions.
private final class Surplus: EventTarget {
  /// Milliseconds.
  static let time = 1000

  private weak var group: UpstreamGroup?

  init(_ group: UpstreamGroup) {
    self.group = group
    super.init(loop: group.loop)
    setDeadline(in: Self.time)
  }

  override func deadlinePassed() {
    if group?.closeSurplus(now: loop.now) == true { setDeadline(in: Self.time) } else { stop() }
  }

  func stop() { loop.forgetDeadline(of: self) }
}

// Methods that aren't inlined: within a method, the object's own properties count no references.
extension UpstreamSession {
  @inline(never)
  fileprivate func serves(_ server: Int, _ trust: UpstreamTrust) -> Bool {
    self.server == server && self.trust.isSame(as: trust)
  }

  @inline(never)
  fileprivate var mayHaveInput: Bool { transport.mayHaveInput }
}
