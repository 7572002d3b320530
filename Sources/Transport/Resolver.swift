import Dispatch
import Glibc

/// Names to addresses, through the system (getaddrinfo), off the loops.
public enum Resolver {
  private static let queue = DispatchQueue(label: "sallyport.resolver", attributes: .concurrent)

  /// Calls back on the loop; no addresses when the name has none or can't be asked.
  public static func resolve(
    _ host: String, port: UInt16, on loop: EventLoop, _ resolved: @escaping @Sendable ([SocketAddress]) -> Void
  ) {
    queue.async {
      let addresses = addresses(of: host, port: port)
      loop.post { resolved(addresses) }
    }
  }

  /// Waits for the answer: at start, and on queues that may wait.
  public static func addresses(of host: String, port: UInt16) -> [SocketAddress] {
    var hints = addrinfo()
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    hints.ai_flags = AI_ADDRCONFIG
    var list: UnsafeMutablePointer<addrinfo>?
    guard getaddrinfo(host, nil, &hints, &list) == 0 else { return [] }
    defer { freeaddrinfo(list) }
    var found: [SocketAddress] = []
    var entry = list
    while let current = entry {
      if let raw = current.pointee.ai_addr, let address = SocketAddress(raw, port: port), !found.contains(address) {
        found.append(address)
      }
      entry = current.pointee.ai_next
    }
    return found
  }
}

/// Carries a loop's own object through a @Sendable block that comes back to the same loop.
// @unchecked: only the loop looks inside.
public struct LoopBox<Value>: @unchecked Sendable {
  public let value: Value
  public init(_ value: Value) { self.value = value }
}
