public import Observability
public import Transport

/// Where a server of an upstream group is, as configured: a name is resolved at start and reload, as nginx does.
public enum UpstreamAddress: Sendable, Hashable, CustomStringConvertible {
  case address(SocketAddress)
  case name(String, port: UInt16)

  public var description: String {
    switch self {
    case .address(let address): address.description
    case .name(let name, let port): "\(name):\(port)"
    }
  }
}

/// One `server` line of an `upstream` block.
public struct UpstreamServerSettings: Sendable, Hashable {
  public var address: UpstreamAddress
  /// 1 to 65535.
  public var weight = 1
  /// 0 switches the count of failures off.
  public var maxFails = 1
  /// Seconds; both the window of the count and the time a server is left out.
  public var failTimeout = 10
  /// 0 is no bound; without `zone` each worker counts its own.
  public var maxConnections = 0
  public var isBackup = false
  public var isDown = false
  /// `drain`: only requests that `sticky` has bound to the server reach it.
  public var isDraining = false
  /// Seconds in which a server that recovers gets its whole weight back; 0: at once.
  public var slowStart = 0
  /// `route=`: what `sticky` knows the server by; empty: the hash of its address.
  public var route: [UInt8] = []
  /// The address as the configuration spells it, which `hash … consistent` hashes.
  public var spelling: String
  /// `resolve`: the servers are those that DNS says, not those of `address`.
  public var followed: FollowedName?
  public var location: SourceLocation

  public init(address: UpstreamAddress, location: SourceLocation, spelling: String? = nil) {
    self.address = address
    self.spelling = spelling ?? address.description
    self.location = location
  }
}

/// `keepalive` and its companions: idle upstream connections kept by each worker.
public struct KeepaliveSettings: Sendable, Hashable {
  /// Idle connections kept; 0 closes each after its exchange.
  public var connections = 0
  /// `local`: a connection serves only the location that opened it.
  public var isLocal = false
  public var requests = 1000
  /// Milliseconds a connection may serve in all.
  public var time = 3_600_000
  /// Milliseconds it may idle.
  public var timeout = 60_000
  public init() {}
}

/// A group's name with the block that has it: names of `http` mean nothing in `stream`, as in nginx, and two groups of one
/// name have nothing in common.
public struct GroupName: Sendable, Hashable, Comparable, CustomStringConvertible {
  /// As after `upstream` or as in `proxy_pass`.
  public let text: String
  public let isOfStream: Bool

  public init(_ text: String, isOfStream: Bool) {
    self.text = text
    self.isOfStream = isOfStream
  }

  public var description: String { isOfStream ? "\(text) (stream)" : text }

  public static func < (one: Self, other: Self) -> Bool {
    one.text == other.text ? !one.isOfStream && other.isOfStream : one.text < other.text
  }
}

/// How connections get to the servers of a group.
public struct UpstreamWays: OptionSet, Sendable, Hashable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }
  public static let direct = UpstreamWays(rawValue: 1)
  public static let proxy = UpstreamWays(rawValue: 2)
}

/// An `upstream` block, or the group of one server that a `proxy_pass` address makes.
public struct UpstreamGroupSettings: Sendable, Hashable {
  /// As after `upstream` or as in `proxy_pass`; the default of $proxy_host and `proxy_ssl_name`.
  public var name: String
  public var servers: [UpstreamServerSettings]
  public var keepalive = KeepaliveSettings()
  public var method = BalanceMethod.roundRobin
  /// `sticky`: requests can be bound to a server.
  public var isSticky = false
  /// `zone`: the name of the state that all workers share; nil: each worker has its own.
  public var zone: String?
  /// Whether servers that have failed are tried if no other is left: in a group that is made for a target with variables.
  /// nginx makes one for each request, so that no failure of an earlier one counts.
  public var triesFailedServers = false
  /// `state`: the file that keeps the servers, which the API changes; nil: they are in the configuration.
  public var stateFile: String?
  /// What the file has is no list of servers. A process that knows the servers keeps them.
  public var isStateDamaged = false
  /// Whether it is a group of `stream`, whose names `http` doesn't know.
  public var isOfStream = false
  /// What tells the group from every other one of the configuration.
  public var fullName: GroupName { GroupName(name, isOfStream: isOfStream) }
  /// How the names of servers with `resolve` are asked for.
  public var nameResolution: NameResolutionSettings?
  public var location: SourceLocation
  /// How the passes that name the group get to its servers.
  public var ways: UpstreamWays = []
  /// Whether only proxies connect to the servers, so that nobody else needs their addresses.
  public var isNamedToProxies: Bool { ways == .proxy }

  /// Whether the choice of a server depends on the request.
  public var asksRequest: Bool {
    switch method {
    case .hash, .consistentHash, .addressHash: true
    case .roundRobin, .leastConnections, .leastTime, .random, .randomTwo: isSticky
    }
  }

  public init(name: String, servers: [UpstreamServerSettings], location: SourceLocation) {
    self.name = name
    self.servers = servers
    self.location = location
  }
}

/// When another server may be tried (`proxy_next_upstream`).
public struct RetryConditions: OptionSet, Sendable, Hashable {
  public let rawValue: UInt16
  public init(rawValue: UInt16) { self.rawValue = rawValue }
  public static let error = RetryConditions(rawValue: 1)
  public static let timeout = RetryConditions(rawValue: 2)
  public static let invalidHeader = RetryConditions(rawValue: 4)
  public static let http500 = RetryConditions(rawValue: 8)
  public static let http502 = RetryConditions(rawValue: 16)
  public static let http503 = RetryConditions(rawValue: 32)
  public static let http504 = RetryConditions(rawValue: 64)
  public static let http403 = RetryConditions(rawValue: 128)
  public static let http404 = RetryConditions(rawValue: 256)
  public static let http429 = RetryConditions(rawValue: 512)
  /// Also methods that are not idempotent, although the request may have been acted on.
  public static let nonIdempotent = RetryConditions(rawValue: 1024)
  public static let standard: RetryConditions = [.error, .timeout]
}

/// `proxy_next_upstream`, `_tries` and `_timeout`.
public struct RetrySettings: Sendable, Hashable {
  public var conditions: RetryConditions = .standard
  /// 0 is as many as there are servers.
  public var tries = 0
  /// Milliseconds, 0 is no bound.
  public var timeout = 0
  public init() {}
}

/// Milliseconds (`proxy_connect_timeout`, `proxy_send_timeout`, `proxy_read_timeout`).
public struct UpstreamTimeouts: Sendable, Hashable {
  public var connect = 60_000
  public var send = 60_000
  public var read = 60_000
  public init() {}
}
