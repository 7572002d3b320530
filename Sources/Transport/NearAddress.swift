import CLinux
import Glibc

extension SocketAddress {
  /// Whether a connection to the address stays on this machine or its link, or goes to no single host.
  ///
  /// The one rule for everything that a certificate can make sallyport ask (CWE-918): revocation lists of distribution points
  /// and OCSP responders of its AIA extension. Such addresses have services that trust whoever reaches them, such as the
  /// metadata of a cloud's machine, or a server on eth0's address that only this machine may use. What the operator names is
  /// not the certificate's word, and isn't asked about here.
  ///
  /// Asks the kernel for its route, and sends nothing. Without an answer the address counts as near.
  public var isNear: Bool {
    if isReserved { return true }
    // What embeds an address of IPv4 leads where that one does (RFC 4291 §2.5.5.2, RFC 6052).
    if case .ipv6(let high, let low, let port) = self, high == 0 || high == 0x0064_FF9B_0000_0000 {
      let inner = SocketAddress.ipv4(address: UInt32(truncatingIfNeeded: low), port: port)
      if inner.isReserved || inner.isOwn { return true }
    }
    return isOwn
  }

  /// Loopback, the link, multicast, broadcast, and no address at all.
  private var isReserved: Bool {
    switch self {
    case .unix, .name: return true
    case .ipv4(let address, _):
      let first = address >> 24
      return first == 0 || first == 127 || first >= 224 || address >> 16 == 0xA9FE
    // ::, ::1 and all of ::/64 but what embeds an address of IPv4; fe80::/10; ff00::/8.
    case .ipv6(let high, let low, _):
      return high == 0 && low >> 32 != 0xFFFF || high >> 54 == 0x3FA || high >> 56 == 0xFF
    }
  }

  /// Whether it is an address of one of this machine's interfaces: the kernel then sends from it, or from loopback.
  private var isOwn: Bool {
    let target = unmapped
    let descriptor = linux_socket_datagram(target.family)
    // A machine without this family has no route either.
    guard descriptor >= 0 else { return errno != EAFNOSUPPORT }
    defer { close(descriptor) }
    // connect(2) of a datagram socket chooses the route only. Port 9 stands for any.
    guard target.withPort(9).withSockaddr({ Glibc.connect(descriptor, $0, $1) }) == 0 else { return false }
    guard let source = Sockets.localAddress(of: descriptor)?.withPort(9) else { return true }
    return source == target.withPort(9) || source.isReserved
  }
}
