import CLinux
import Glibc
import Testing
@testable import Transport

/// What a certificate may make sallyport ask. Nothing is sent here: the kernel only tells its routes.
@Suite struct `Addresses of this machine and its link` {
  @Test(arguments: [
    "127.0.0.1", "127.8.8.8", "0.0.0.0", "169.254.169.254", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1",
    "febf::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "::127.0.0.1",
  ]) func `are near by their own form`(literal: String) {
    #expect(SocketAddress(literal: literal, port: 80)?.isNear == true)
  }

  @Test(arguments: ["192.0.2.201", "10.255.0.1", "2001:db8::1", "::ffff:192.0.2.201", "64:ff9b::c000:2c9"])
  func `others are not`(literal: String) {
    #expect(SocketAddress(literal: literal, port: 80)?.isNear == false)
  }

  /// The addresses of all interfaces.
  private static let own: [SocketAddress] = {
    var first: UnsafeMutablePointer<ifaddrs>?
    guard getifaddrs(&first) == 0 else { return [] }
    defer { freeifaddrs(first) }
    return sequence(first: first) { $0?.pointee.ifa_next }.prefix { $0 != nil }.compactMap { entry -> SocketAddress? in
      guard let address = entry?.pointee.ifa_addr else { return nil }
      var storage = sockaddr_storage()
      let count: Int
      switch Int32(address.pointee.sa_family) {
      case AF_INET: count = MemoryLayout<sockaddr_in>.size
      case AF_INET6: count = MemoryLayout<sockaddr_in6>.size
      default: return nil
      }
      withUnsafeMutableBytes(of: &storage) { $0.copyMemory(from: UnsafeRawBufferPointer(start: address, count: count)) }
      return SocketAddress(storage, length: socklen_t(count))?.withPort(80)
    }
  }()

  @Test func `those of every interface are near, in each spelling`() throws {
    try #require(Self.own.count > 1, "loopback has two at least")
    for address in Self.own {
      #expect(address.isNear, "\(address)")
      if case .ipv4 = address {
        #expect(SocketAddress(literal: "::ffff:\(address.host)", port: 80)?.isNear == true, "\(address)")
        #expect(SocketAddress(literal: "64:ff9b::\(address.host)", port: 80)?.isNear == true, "\(address)")
      }
    }
  }
}
