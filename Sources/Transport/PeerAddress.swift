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
  /// The party of blocking work that a client belongs to: an IPv4 address, or the /64 network of an IPv6 address, because
  /// one household usually has a /64 network.
  public var party: String {
    guard case .ipv6(let high, _, _) = self, high != 0 else { return host }
    return "\(String(high, radix: 16))/64"
  }
}
