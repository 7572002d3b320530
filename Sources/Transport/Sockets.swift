import CLinux
import Glibc

/// Making and tuning sockets. Every descriptor is non-blocking and close-on-exec.
public enum Sockets {
  /// A listening socket. `reuseport` lets each worker have its own.
  public static func listen(
    on address: SocketAddress, backlog: Int, reuseport: Bool, ipv6only: Bool
  ) throws(SocketError) -> Int32 {
    let descriptor = try bound(to: address, reuseport: reuseport, ipv6only: ipv6only)
    if Glibc.listen(descriptor, Int32(truncatingIfNeeded: backlog)) != 0 {
      let code = errno
      Glibc.close(descriptor)
      throw SocketError("listen", code)
    }
    return descriptor
  }

  /// Throws why no socket could listen on the address now. The socket that finds out is bound, and doesn't listen: a client
  /// that came at that moment would be lost with it.
  public static func tryBinding(to address: SocketAddress, ipv6only: Bool) throws(SocketError) {
    Glibc.close(try bound(to: address, reuseport: false, ipv6only: ipv6only))
  }

  private static func bound(
    to address: SocketAddress, reuseport: Bool, ipv6only: Bool
  ) throws(SocketError) -> Int32 {
    let descriptor = linux_socket_stream(address.family)
    guard descriptor >= 0 else { throw SocketError("socket", errno) }
    set(descriptor, SOL_SOCKET, SO_REUSEADDR, 1)
    if reuseport { set(descriptor, SOL_SOCKET, SO_REUSEPORT, 1) }
    if case .ipv6 = address { set(descriptor, Int32(IPPROTO_IPV6), IPV6_V6ONLY, ipv6only ? 1 : 0) }
    if address.withSockaddr({ bind(descriptor, $0, $1) }) != 0 {
      let code = errno
      Glibc.close(descriptor)
      throw SocketError("bind", code)
    }
    return descriptor
  }

  /// The name of this host, as it introduces itself.
  public static let hostName: String = {
    var buffer = [CChar](repeating: 0, count: 256)
    guard gethostname(&buffer, buffer.count - 1) == 0 else { return "localhost" }
    return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }()

  /// A socket whose connection is under way.
  public static func connect(
    to address: SocketAddress, origin: ConnectionOrigin = ConnectionOrigin()
  ) throws(SocketError) -> Int32 {
    let descriptor = linux_socket_stream(address.family)
    guard descriptor >= 0 else { throw SocketError("socket", errno) }
    if address.family != AF_UNIX { set(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, 1) }
    if origin.isKeptAlive { set(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1) }
    if let size = origin.sendBuffer { set(descriptor, SOL_SOCKET, SO_SNDBUF, Int32(clamping: size)) }
    if let size = origin.receiveBuffer { set(descriptor, SOL_SOCKET, SO_RCVBUF, Int32(clamping: size)) }
    if let local = origin.local, let code = bindLocal(descriptor, local) {
      Glibc.close(descriptor)
      throw SocketError("bind", code)
    }
    let result = address.withSockaddr { Glibc.connect(descriptor, $0, $1) }
    // A unix socket whose backlog is full says EAGAIN and does not go on by itself.
    if result != 0 && errno != EINPROGRESS {
      let code = errno
      Glibc.close(descriptor)
      throw SocketError("connect", code)
    }
    return descriptor
  }

  /// Binds a socket to its own address before it connects, and returns the errno of a failure.
  private static func bindLocal(_ descriptor: Int32, _ local: SocketAddress) -> Int32? {
    // Otherwise the system would take a port for the address alone, and one address had 28,000 connections in all.
    if local.port == 0 { set(descriptor, Int32(IPPROTO_IP), IP_BIND_ADDRESS_NO_PORT, 1) }
    return local.withSockaddr { bind(descriptor, $0, $1) } == 0 ? nil : errno
  }

  /// The next connection of a listening socket; nil when there is none now.
  public static func accept(_ listener: Int32) throws(SocketError) -> (descriptor: Int32, peer: SocketAddress)? {
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    let descriptor = withUnsafeMutablePointer(to: &storage) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { linux_accept4(listener, $0, &length) }
    }
    if descriptor >= 0 {
      return (descriptor, SocketAddress(storage, length: length) ?? .unix(path: ""))
    }
    switch errno {
    case EAGAIN, EWOULDBLOCK, EINTR, ECONNABORTED: return nil
    default: throw SocketError("accept4", errno)
    }
  }

  public static func localAddress(of descriptor: Int32) -> SocketAddress? {
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    let result = withUnsafeMutablePointer(to: &storage) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) }
    }
    return result == 0 ? SocketAddress(storage, length: length) : nil
  }

  /// What the kernel knows of a TCP connection; nil for another kind of socket.
  public static func tcpState(of descriptor: Int32) -> TCPState? {
    var state = TCPState()
    let result = linux_tcp_state(
      descriptor, &state.roundTrip, &state.roundTripVariance, &state.congestionWindow, &state.receiveSpace)
    return result == 0 ? state : nil
  }

  /// Whether a socket of IPv6 takes no connections of IPv4.
  public static func isIPv6Only(_ descriptor: Int32) -> Bool {
    var value: Int32 = 0
    var length = socklen_t(MemoryLayout<Int32>.size)
    return getsockopt(descriptor, Int32(IPPROTO_IPV6), IPV6_V6ONLY, &value, &length) == 0 && value != 0
  }

  /// Whether other sockets of the same user may have the same port (SO_REUSEPORT).
  public static func sharesPort(_ descriptor: Int32) -> Bool {
    var value: Int32 = 0
    var length = socklen_t(MemoryLayout<Int32>.size)
    return getsockopt(descriptor, SOL_SOCKET, SO_REUSEPORT, &value, &length) == 0 && value != 0
  }

  /// Lets other sockets of the same user have the same port, or no longer. Takes effect for those that bind it later, also
  /// if this one listens.
  public static func sharePort(_ descriptor: Int32, _ shares: Bool) {
    set(descriptor, SOL_SOCKET, SO_REUSEPORT, shares ? 1 : 0)
  }

  /// Lets a listening socket take no new connection, as if it listened on an interface that isn't there: the kernel gives
  /// them to other sockets of the address. Handshakes that have begun, and the queue, stay. There is no way back.
  public static func takeNoMore(_ listener: Int32) {
    // SO_BINDTOIFINDEX, which the kernel allows to everybody since 5.7.
    set(listener, SOL_SOCKET, 62, .max)
  }

  /// Whether the user of this process has made a socket, so that the kernel lets both share a port.
  public static func isOfThisUser(_ descriptor: Int32) -> Bool {
    var status = stat()
    return fstat(descriptor, &status) == 0 && status.st_uid == geteuid()
  }

  public static func setNoDelay(_ descriptor: Int32) { set(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, 1) }

  /// Seconds; nil leaves the system's.
  public static func setKeepalive(_ descriptor: Int32, on: Bool, idle: Int?, interval: Int?, count: Int?) {
    set(descriptor, SOL_SOCKET, SO_KEEPALIVE, on ? 1 : 0)
    if let idle { set(descriptor, Int32(IPPROTO_TCP), TCP_KEEPIDLE, Int32(truncatingIfNeeded: idle)) }
    if let interval { set(descriptor, Int32(IPPROTO_TCP), TCP_KEEPINTVL, Int32(truncatingIfNeeded: interval)) }
    if let count { set(descriptor, Int32(IPPROTO_TCP), TCP_KEEPCNT, Int32(truncatingIfNeeded: count)) }
  }

  /// Options of a listening socket that its connections inherit, or that act in its queue. nil leaves what is.
  public static func tuneListener(
    _ descriptor: Int32, receiveBuffer: Int?, sendBuffer: Int?, defers: Bool?, fastOpenQueue: Int?
  ) {
    if let receiveBuffer { set(descriptor, SOL_SOCKET, SO_RCVBUF, Int32(truncatingIfNeeded: receiveBuffer)) }
    if let sendBuffer { set(descriptor, SOL_SOCKET, SO_SNDBUF, Int32(truncatingIfNeeded: sendBuffer)) }
    // One second, as in nginx.
    if let defers { set(descriptor, Int32(IPPROTO_TCP), TCP_DEFER_ACCEPT, defers ? 1 : 0) }
    if let fastOpenQueue {
      set(descriptor, Int32(IPPROTO_TCP), TCP_FASTOPEN, Int32(truncatingIfNeeded: fastOpenQueue))
    }
  }

  /// Closes a connection that there is no room for.
  public static func refuse(_ descriptor: Int32) { Glibc.close(descriptor) }

  static func setLingerZero(_ descriptor: Int32) {
    var value = linger(l_onoff: 1, l_linger: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &value, socklen_t(MemoryLayout<linger>.size))
  }

  private static func set(_ descriptor: Int32, _ level: Int32, _ option: Int32, _ value: Int32) {
    var value = value
    setsockopt(descriptor, level, option, &value, socklen_t(MemoryLayout<Int32>.size))
  }
}

/// What the kernel knows of a TCP connection (tcp(7), TCP_INFO).
public struct TCPState: Sendable, Hashable {
  /// Microseconds.
  public var roundTrip: UInt32 = 0
  /// Microseconds.
  public var roundTripVariance: UInt32 = 0
  /// Segments.
  public var congestionWindow: UInt32 = 0
  /// Bytes.
  public var receiveSpace: UInt32 = 0
}
