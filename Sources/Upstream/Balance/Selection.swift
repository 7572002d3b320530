/// What a request brings to the choice of its servers, and how far the choice has come over its attempts.
///
/// A value without a method: the request's owner keeps it from one attempt to the next.
public struct Selection: Sendable {
  /// What the method hashes.
  public enum Key: Sendable, Equatable {
    /// The request brings none: the servers take turns.
    case none
    case digest(KeyDigest)
    case address(AddressKey)
  }

  public var tried = TriedServers()
  public var key = Key.none
  /// The identifier of the server that `sticky` asks for. Clients choose it: it may be anything.
  public var identifier: [UInt8]?
  /// How far `hash`, `ip_hash` and `random` have come: nginx's `hash`, `rehash` and `tries` of a request.
  var hash = 0
  var rehashes = 0
  var tries = 0

  public init() {}
}

/// What `ip_hash` takes of a client's address: three octets of IPv4, all of IPv6, and for unix sockets three zeros.
public struct AddressKey: Sendable, Equatable {
  private let high: UInt64
  private let low: UInt64
  private let count: Int

  public init(ipv4 address: UInt32) { (high, low, count) = (UInt64(address) << 32, 0, 3) }
  public init(high: UInt64, low: UInt64) { (self.high, self.low, count) = (high, low, 16) }

  /// The address of a client without one.
  public init() { self.init(ipv4: 0) }

  /// nginx's arithmetic: the hash that follows `hash`.
  func hash(after hash: Int) -> Int {
    (0..<count).reduce(hash) { hash, index in
      let word = index < 8 ? high : low
      let octet = Int(word >> UInt64(56 - index % 8 * 8) & 0xFF)
      return (hash * 113 + octet) % 6271
    }
  }
}

/// The servers that an exchange has tried: a bit for each of the first 64.
public struct TriedServers: Sendable, Equatable {
  private var bits: UInt64 = 0
  /// The servers from the 65th on; nil if none of them was tried, so that a copy counts no reference.
  private var more: Set<Int>?
  public private(set) var count = 0

  public init() {}

  public func contains(_ index: Int) -> Bool {
    index < 64 ? bits & (1 &<< UInt64(index)) != 0 : more?.contains(index) ?? false
  }

  public mutating func insert(_ index: Int) {
    guard !contains(index) else { return }
    count += 1
    if index < 64 { bits |= 1 &<< UInt64(index) } else { more = (more ?? []).union([index]) }
  }
}

/// A server as the balancer gave it to an attempt. It stays that server's when the list of servers is replaced.
public struct ServerTicket: Sendable, Hashable {
  /// In the list at that time.
  public let index: Int
  /// Never another server's.
  let serial: UInt64

  /// From which on serials are given by groups whose list has changed, each for itself.
  static let ownSerials: UInt64 = 1 << 63
  /// Whether the group itself gave the ticket, not what its workers share.
  var isOwn: Bool { serial > Self.ownSerials }
}

/// A small generator of numbers for `random`: SplitMix64. Nothing secret depends on it.
struct PickGenerator: RandomNumberGenerator, Sendable {
  private var state: UInt64

  init(seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ mixed >> 30) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
    return mixed ^ mixed >> 31
  }
}
