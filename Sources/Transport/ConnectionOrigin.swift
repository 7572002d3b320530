public import Bytes

/// How a connection to an upstream begins: the socket's own address and options, and the bytes before the first protocol.
///
/// A kept connection serves another request only if that one's origin is the same: an upstream may decide by the address
/// that a connection comes from, and what a PROXY header said of one client holds for nobody else.
public struct ConnectionOrigin: Sendable, Hashable {
  /// The local address (`proxy_bind`); nil: the system chooses. Port 0 leaves the port to the system.
  public var local: SocketAddress?
  /// The header of the PROXY protocol (`proxy_protocol`); it goes out before TLS. Empty: none.
  public var header: [UInt8] = []
  /// SO_KEEPALIVE (`proxy_socket_keepalive`).
  public var isKeptAlive = false
  /// SO_SNDBUF and SO_RCVBUF (`proxy_socket_sndbuf`, `proxy_socket_rcvbuf`); nil: the system's.
  public var sendBuffer: Int?
  public var receiveBuffer: Int?

  /// The proxy through which the connection goes (`CONNECT`); nil: it goes to the upstream itself.
  public var proxy: ConnectProxy?

  public init() {}
}

/// A proxy of HTTP that makes tunnels to upstream servers. It sees their names, and nothing that TLS carries.
public struct ConnectProxy: Sendable, Hashable {
  /// `HOST:PORT`, as the configuration names it.
  public let name: String
  /// At least one.
  public let addresses: [SocketAddress]
  /// What it gets as Proxy-Authorization; nil: nothing.
  public let credentials: ProxyCredentials?

  /// nil without an address.
  public init?(name: String, addresses: [SocketAddress], credentials: ProxyCredentials?) {
    guard !addresses.isEmpty else { return nil }
    self.name = name
    self.addresses = addresses
    self.credentials = credentials
  }
}

/// The credentials for a proxy, which are one object as long as their file stays the same.
public final class ProxyCredentials: Sendable, Hashable, CustomReflectable {
  /// The value of Proxy-Authorization.
  public let field: SecretBytes

  public init(_ field: SecretBytes) { self.field = field }

  public static func == (one: ProxyCredentials, other: ProxyCredentials) -> Bool { one === other }
  public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
  public var customMirror: Mirror { Mirror(self, children: [:]) }
}
