import CLinux
import Glibc

extension Sockets {
  /// The address of the other end; nil once that end has left.
  public static func peerAddress(of descriptor: Int32) -> SocketAddress? {
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    let result = withUnsafeMutablePointer(to: &storage) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getpeername(descriptor, $0, &length) }
    }
    return result == 0 ? SocketAddress(storage, length: length) : nil
  }
}

extension SocketAddress {
  /// `::ffff:a.b.c.d` (RFC 4291 §2.5.5.2) as the IPv4 address that it stands for; other addresses as they are. A socket with
  /// `ipv6only=off` gives its IPv4 clients such addresses, so whoever compares a client's address compares this.
  public var unmapped: SocketAddress {
    guard case .ipv6(let high, let low, let port) = self, high == 0, low >> 32 == 0xFFFF else { return self }
    return .ipv4(address: UInt32(truncatingIfNeeded: low), port: port)
  }

  /// The party of blocking work that a client belongs to: an IPv4 address, or the /64 network of an IPv6 address, because
  /// one household usually has a /64 network.
  public var party: String {
    guard case .ipv6(let high, _, _) = self, high != 0 else { return unmapped.host }
    return "\(String(high, radix: 16))/64"
  }
}
