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

  public init() {}
}
