import Forward
import Glibc
import Traffic
import Transport

/// Whom the socket of a `listen` takes connections for. A socket of IPv6 takes those of IPv4, too, with `ipv6only=off`.
struct BoundAddress: Sendable, Hashable {
  let address: SocketAddress
  /// Of no effect for IPv4 and unix sockets.
  let isIPv6Only: Bool

  init(_ address: SocketAddress, isIPv6Only: Bool = true) {
    self.address = address
    self.isIPv6Only = isIPv6Only
  }

  /// nil: the socket is one of systemd's, which has an address of its own.
  init?(_ listener: ListenerSettings) {
    guard case .socket(let address) = listener.address else { return nil }
    self.init(address, isIPv6Only: listener.options.ipv6only)
  }

  /// That of a socket that is bound; nil if the kernel doesn't say.
  init?(of descriptor: Int32) {
    guard let address = Sockets.localAddress(of: descriptor) else { return nil }
    self.init(address, isIPv6Only: address.family == AF_INET6 && Sockets.isIPv6Only(descriptor))
  }

  /// Whether the kernel binds both only if they share the port (SO_REUSEPORT): there is an address whose connections
  /// either would take.
  func overlaps(_ other: BoundAddress) -> Bool {
    guard let port = address.port, port == other.address.port else { return false }
    return four.meets(other.four) || six.meets(other.six)
  }

  /// Whether the socket takes a connection whose own address this is.
  func takes(_ local: SocketAddress) -> Bool { overlaps(BoundAddress(local)) }

  /// Which addresses of a family a socket takes connections for.
  private enum Part {
    case none, all
    case one(UInt64, UInt64)

    func meets(_ other: Part) -> Bool {
      switch (self, other) {
      case (.none, _), (_, .none): false
      case (.all, _), (_, .all): true
      case (.one(let high, let low), .one(let otherHigh, let otherLow)): high == otherHigh && low == otherLow
      }
    }
  }

  private var four: Part {
    switch address {
    case .ipv4(let address, _): address == 0 ? .all : .one(0, UInt64(address))
    case .ipv6(0, 0, _): isIPv6Only ? .none : .all
    // An address of IPv4 as IPv6 writes it.
    case .ipv6(0, let low, _) where low >> 32 == 0xFFFF: low & 0xFFFF_FFFF == 0 ? .all : .one(0, low & 0xFFFF_FFFF)
    case .ipv6, .unix, .name: .none
    }
  }

  private var six: Part {
    switch address {
    case .ipv6(0, 0, _): .all
    case .ipv6(0, let low, _) where low >> 32 == 0xFFFF: .none
    case .ipv6(let high, let low, _): .one(high, low)
    case .ipv4, .unix, .name: .none
    }
  }
}
