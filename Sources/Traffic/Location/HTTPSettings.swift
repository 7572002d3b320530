public import Observability
import Patterns
public import TLS
public import Transport
public import Upstream

/// One `server {}`. Immutable; shared by all workers.
public final class ServerSettings: Sendable {
  public let names: [ServerName]
  /// $server_name: the first one as written, or empty.
  public let primaryName: String
  /// Set when any `listen` of it says ssl (or the obsolete `ssl on`).
  public let tls: ServerTLSSettings?
  /// By what a server block without TLS judges the clients of trusted fronts; nil: there are none, or it has TLS.
  package let relayedPolicy: ServerTLSSettings?
  public let head: ClientHeadSettings
  public let http2: HTTP2Settings
  /// nil: the server is of `http`.
  public let stream: StreamServerSettings?
  /// What stands outside locations, and the locations as its `locations`.
  public let root: LocationSettings
  /// What features have made of it; nothing for a server of `stream`.
  package let parts: ServerParts
  public let location: SourceLocation

  package init(
    names: [ServerName], primaryName: String, tls: ServerTLSSettings?, relayedPolicy: ServerTLSSettings? = nil,
    head: ClientHeadSettings,
    http2: HTTP2Settings = HTTP2Settings(), stream: StreamServerSettings? = nil, root: LocationSettings,
    parts: ServerParts, location: SourceLocation
  ) {
    self.stream = stream
    self.names = names
    self.primaryName = primaryName
    self.tls = tls
    self.relayedPolicy = relayedPolicy
    self.head = head
    self.http2 = http2
    self.root = root
    self.parts = parts
    self.location = location
  }
}

extension ServerSettings {
  /// By what clients are judged: those of handshakes, or those of trusted fronts; nil: none are.
  package var clientPolicy: ServerTLSSettings? { tls ?? relayedPolicy }
}

/// How request heads are read (server level).
public struct ClientHeadSettings: RowSettings, Sendable, Hashable {
  /// Milliseconds (`client_header_timeout`).
  public var timeout = 60_000
  /// `large_client_header_buffers`: number × size; a line fits one, the head fits all.
  public var buffers = 4
  public var bufferSize = 8192
  public var ignoresInvalidFields = true
  public var underscoresInFields = false
  public var mergesSlashes = true
  /// `max_headers`: lines of fields in a head.
  public var fields = 1000
  public init() {}
}

/// HTTP/2 towards clients (server level).
public struct HTTP2Settings: RowSettings, Sendable, Hashable {
  /// `http2`: clients may speak HTTP/2.
  public var isOn = false
  /// `http2_max_concurrent_streams`: requests in progress on one connection.
  public var concurrentStreams = 128
  /// `http2_body_preread_size`: bytes of a request's body that a client may send before the upstream takes any.
  public var bodyPrereadSize = 65_536
  public init() {}
}

/// Where a listener listens.
public enum ListenAddress: Sendable, Hashable, CustomStringConvertible {
  case socket(SocketAddress)
  /// `systemd:NAME`: sockets that systemd handed over under this FileDescriptorName.
  case systemd(name: String)

  public var description: String {
    switch self {
    case .socket(let address): address.description
    case .systemd(let name): "systemd:\(name)"
    }
  }
}

extension ListenAddress {
  /// Whether it is every address of the other one's family, with the same port.
  package func covers(_ other: ListenAddress) -> Bool {
    switch (self, other) {
    case (.socket(.ipv4(0, let port)), .socket(.ipv4(_, let asked))): port == asked
    case (.socket(.ipv6(0, 0, let port)), .socket(.ipv6(_, _, let asked))): port == asked
    default: false
    }
  }
}

extension [ListenerSettings] {
  /// The listener with this address, or with the same port on every address of its family.
  package func index(of address: ListenAddress) -> Int? {
    firstIndex { $0.address == address } ?? firstIndex { $0.address.covers(address) }
  }
}

/// Options of the socket: those of the one `listen` that sets any, as nginx demands.
public struct ListenOptions: Sendable, Hashable {
  /// nil is the system's choice (511 in nginx, ours the same).
  public var backlog = 511
  public var reuseport = false
  public var ipv6only = true
  /// `so_keepalive=on|off|idle:interval:count`
  public var keepalive: TCPKeepalive?
  /// `rcvbuf=` and `sndbuf=`, in bytes; nil: the system's choice.
  public var receiveBuffer: Int?
  public var sendBuffer: Int?
  /// `deferred`: the kernel hands a connection over with its first byte (TCP_DEFER_ACCEPT).
  public var isDeferred = false
  /// `fastopen=`: connections that may wait with data before their handshake is over (TCP_FASTOPEN); nil: none.
  public var fastOpenQueue: Int?
  public init() {}
}

public enum TCPKeepalive: Sendable, Hashable {
  case on, off
  /// Seconds; nil leaves the system's value.
  case parameters(idle: Int?, interval: Int?, count: Int?)
}

/// One listening address with the servers that share it.
public struct ListenerSettings: Sendable {
  public var address: ListenAddress
  public var options: ListenOptions
  public var isTLS: Bool
  /// `proxy_protocol`: each connection begins with a header of the PROXY protocol.
  public var expectsProxyHeader: Bool
  /// What its servers serve.
  public var kind: TrafficKind
  /// Indices into HTTPSettings.servers, in file order.
  public var servers: [Int]
  /// Index into HTTPSettings.servers: `default_server`, or the first.
  public var defaultServer: Int
  public var location: SourceLocation

  public init(
    address: ListenAddress, options: ListenOptions, isTLS: Bool, servers: [Int], defaultServer: Int,
    location: SourceLocation, expectsProxyHeader: Bool = false, kind: TrafficKind = .http
  ) {
    self.kind = kind
    self.address = address
    self.options = options
    self.isTLS = isTLS
    self.expectsProxyHeader = expectsProxyHeader
    self.servers = servers
    self.defaultServer = defaultServer
    self.location = location
  }
}

/// The `http {}` block.
public final class HTTPSettings: Sendable {
  /// The features by which the blocks were read.
  package let features: FeatureDirectives
  public let listeners: [ListenerSettings]
  public let servers: [ServerSettings]
  /// `upstream` blocks and the groups that `proxy_pass` addresses make.
  public let groups: [UpstreamGroupSettings]
  /// How many variables `set` and named captures define.
  public let slots: Int
  /// Variables of `map`, `geo` and `split_clients`, by slot.
  public let computed: [Int: ComputedVariable]
  /// The names of variables that only `set` gives a value, by slot.
  public let setNames: [Int: String]
  /// The names of all variables that the configuration defines, by slot.
  public let slotNames: [Int: String]
  /// Every `resolver` line.
  public let resolvers: [ResolverSettings]
  public let clientLimits: ClientLimitSettings
  /// What features have read of the blocks.
  package let parts: BlockParts
  /// Whether requests can change servers (`api write=on`).
  package let hasWritableAPI: Bool
  /// By index in `servers`: the indices of the listeners that have the server block.
  private let listenersOfServers: [[Int]]

  package init(
    features: FeatureDirectives, listeners: [ListenerSettings], servers: [ServerSettings],
    groups: [UpstreamGroupSettings],
    slots: Int,
    computed: [Int: ComputedVariable] = [:], setNames: [Int: String] = [:], slotNames: [Int: String] = [:],
    resolvers: [ResolverSettings] = [], clientLimits: ClientLimitSettings = ClientLimitSettings(),
    parts: BlockParts = BlockParts(),
    hasWritableAPI: Bool = false
  ) {
    self.features = features
    self.parts = parts
    self.hasWritableAPI = hasWritableAPI
    self.clientLimits = clientLimits
    self.resolvers = resolvers
    self.listeners = listeners
    self.servers = servers
    self.groups = groups
    self.slots = slots
    self.computed = computed
    self.setNames = setNames
    self.slotNames = slotNames
    var listenersOfServers = [[Int]](repeating: [], count: servers.count)
    for (number, listener) in listeners.enumerated() {
      for server in listener.servers where servers.indices.contains(server) {
        listenersOfServers[server].append(number)
      }
    }
    self.listenersOfServers = listenersOfServers
  }

  /// The listeners that have a server block, in their order. `index`: in `servers`.
  ///
  /// Ask here, and not each listener for its blocks: thousands of blocks may share one listener.
  package func listeners(ofServer index: Int) -> [ListenerSettings] { listenersOfServers[index].map { listeners[$0] } }
}
