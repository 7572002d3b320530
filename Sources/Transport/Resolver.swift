import CLinux
import Dispatch
import Glibc
import Synchronization

/// Looks names up through the system (getaddrinfo), on the daemon's pool.
///
/// Names of requests and names of a reload are different classes of work: a client that brings slow names delays no
/// reload.
public struct Resolver: Sendable {
  /// The result of a lookup.
  public enum Answer: Sendable, Hashable {
    /// Empty if the name has no addresses, or if the lookup failed.
    case addresses([SocketAddress])
    /// No lookup was made, because too many names wait already.
    case tooManyNames
  }

  public struct Name: Sendable, Hashable {
    public let host: String
    public let port: UInt16

    public init(_ host: String, port: UInt16) {
      self.host = host
      self.port = port
    }
  }

  public typealias LookUp = @Sendable (_ host: String, _ port: UInt16) -> [SocketAddress]

  private let pool: BlockingPool
  private let lookUp: LookUp

  /// `lookUp`: another one than the system's, for tests.
  public init(pool: BlockingPool, lookUp: @escaping LookUp = { Resolver.addresses(of: $0, port: $1) }) {
    self.pool = pool
    self.lookUp = lookUp
  }

  /// Looks up a name that a request brought. `resolved` is called on the loop, and never before this returns.
  public func resolve(
    _ host: String, port: UInt16, on loop: EventLoop, _ resolved: @escaping @Sendable (Answer) -> Void
  ) {
    let outcome = pool.run(.requestNames, for: host) { [lookUp] in
      let addresses = lookUp(host, port)
      loop.post { resolved(.addresses(addresses)) }
    }
    if !outcome.isTaken { loop.post { resolved(.tooManyNames) } }
  }

  /// Looks up the names of a configuration side by side, and waits for all of them: never on an event loop.
  public func addresses(of names: Set<Name>) -> [Name: [SocketAddress]] {
    let found = Mutex<[Name: [SocketAddress]]>([:])
    let group = DispatchGroup()
    for name in names {
      group.enter()
      let look: @Sendable () -> Void = { [lookUp] in
        let addresses = lookUp(name.host, name.port)
        found.withLock { $0[name] = addresses }
        group.leave()
      }
      // If the pool is full, this thread looks the name up itself.
      if !pool.run(.reloadNames, for: name.host, look).isTaken { look() }
    }
    group.wait()
    return found.withLock { $0 }
  }

  /// Whether the system can't ask DNS now, so that a later lookup may succeed (EAI_AGAIN). Asks and waits.
  public static func cannotAsk(_ host: String) -> Bool {
    var hints = addrinfo()
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    hints.ai_flags = AI_ADDRCONFIG
    var list: UnsafeMutablePointer<addrinfo>?
    let code = getaddrinfo(host, nil, &hints, &list)
    if let list { freeaddrinfo(list) }
    return code == EAI_AGAIN
  }

  /// Asks the system and waits for its answer: for commands, and inside the pool.
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
// @unchecked: only the loop accesses the value.
public struct LoopBox<Value>: @unchecked Sendable {
  public let value: Value
  public init(_ value: Value) { self.value = value }
}
