import ArgumentParser
import CLinux
import Glibc
import Transport

/// An address of this machine on which others may reach the demo: `--listen`.
struct DemoListen: ExpressibleByArgument {
  let address: SocketAddress
  let text: String
  var isAny: Bool { text == "0.0.0.0" || text == "::" }

  init?(argument: String) {
    guard let address = SocketAddress(literal: argument, port: 0) else { return nil }
    self.address = address
    text = argument.lowercased()
  }

  /// What others call this machine there, for the server's certificate. All addresses: each one that an interface has, the
  /// machine's name, and the names that Docker and Podman give to the machine in their containers.
  var names: [DemoName] {
    guard isAny else { return [DemoName(argument: text)].compactMap { $0 } }
    let others = ["host.docker.internal", "host.containers.internal", Sockets.hostName]
    return (Self.ownAddresses + others).compactMap { DemoName(argument: $0) }
  }

  /// Without the loopback's, and those of one link, which need the interface's name beside them.
  private static var ownAddresses: [String] {
    var list: UnsafeMutablePointer<ifaddrs>?
    guard getifaddrs(&list) == 0 else { return [] }
    defer { freeifaddrs(list) }
    var found: [String] = []
    var next = list
    while let entry = next {
      next = entry.pointee.ifa_next
      guard entry.pointee.ifa_flags & UInt32(IFF_LOOPBACK) == 0, let address = entry.pointee.ifa_addr,
        let host = Self.host(address), !host.hasPrefix("fe80:")
      else { continue }
      found.append(host)
    }
    return found
  }

  private static func host(_ address: UnsafePointer<sockaddr>) -> String? {
    let family = Int32(address.pointee.sa_family)
    guard family == AF_INET || family == AF_INET6 else { return nil }
    let length = family == AF_INET ? MemoryLayout<sockaddr_in>.size : MemoryLayout<sockaddr_in6>.size
    var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
    guard getnameinfo(address, socklen_t(length), &text, socklen_t(text.count), nil, 0, NI_NUMERICHOST) == 0 else {
      return nil
    }
    return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}

/// The addresses that the demo listens on: the loopback's, or all, and those of `--listen`.
struct DemoListeners {
  let addresses: [SocketAddress]

  /// Checks them before files are made, for a better message than bind's.
  init(_ given: [DemoListen], port: UInt16) throws(DemoFailure) {
    var found: [SocketAddress] = []
    for (standard, any) in [("127.0.0.1", "0.0.0.0"), ("::1", "::")] {
      let isOfFamily: (DemoListen) -> Bool = { $0.text.contains(":") == any.contains(":") }
      let own = given.contains { $0.text == any } ? [any] : [standard] + given.filter(isOfFamily).map(\.text)
      for text in own.reduce(into: [String](), { if !$0.contains($1) { $0.append($1) } }) {
        guard let address = SocketAddress(literal: text, port: port) else { continue }
        do throws(SocketError) {
          try Sockets.tryBinding(to: address, ipv6only: true)
          found.append(address)
        } catch {
          // A machine without IPv6 has no ::1.
          if text == "::1", error.code != EADDRINUSE { continue }
          throw DemoFailure(
            text: error.code == EADDRINUSE
              ? "another process uses port \(port) of \(text): choose another port with --port"
              : "can't listen on port \(port) of \(text): \(error); choose another port with --port")
        }
      }
    }
    addresses = found
  }
}
