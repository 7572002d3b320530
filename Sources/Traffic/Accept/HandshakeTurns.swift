import DequeModule
import Transport

/// The TLS handshakes of one worker that are under way, and the clients that wait for their turn (`ssl_handshake_limit`).
/// Pure: the caller brings numbers of clients, and the time (milliseconds of one monotonic clock).
///
/// A handshake is under way from the client's first byte on, because it takes its memory then. A client that waits has
/// taken almost nothing.
struct HandshakeTurns {
  /// What the limit of an address counts together.
  enum Origin: Hashable {
    case ipv4(UInt32)
    /// The first 64 bits: one host may have all addresses that begin with them.
    case ipv6(UInt64)

    /// nil: a client of a unix socket, which no limit of an address concerns.
    init?(_ address: SocketAddress) {
      switch address.unmapped {
      case .ipv4(let address, _): self = .ipv4(address)
      case .ipv6(let high, _, _): self = .ipv6(high)
      case .unix, .name: return nil
      }
    }
  }

  private enum State {
    case underWay(Origin?, since: UInt64)
    case waiting(Origin?)
  }

  /// Who waits of one origin. Its clients have their turns in the order in which they came.
  private struct Line {
    /// Some may have left; `clients` tells.
    var waiting: Deque<UInt64> = []
    /// How many have not left.
    var count = 0
    /// Whether the line stands in `next`.
    var isNext = false
  }

  /// Milliseconds after which a handshake gives its turn to one that waits.
  static let longest: UInt64 = 3000

  /// How many handshakes may be under way, in all and of one origin.
  private var total: Int, perAddress: Int
  private var clients: [UInt64: State] = [:]
  private var underWay = 0
  private var waiting = 0
  private var counts: [Origin: Int] = [:]
  private var lines: [Origin?: Line] = [:]
  /// The origins of which somebody waits and may begin when a turn is free. They take turns, so that an address with many
  /// clients doesn't keep those of others waiting.
  private var next: Deque<Origin?> = []

  init(total: Int, perAddress: Int) { (self.total, self.perAddress) = (total, perAddress) }

  /// Changes the limits. Returns the clients whose turn it is now.
  mutating func limit(total: Int, perAddress: Int, now: UInt64) -> [UInt64] {
    (self.total, self.perAddress) = (total, perAddress)
    // Lines that had no room may have some now.
    for origin in Array(lines.keys) { offer(origin) }
    return begin(now: now)
  }

  var isAwaited: Bool { waiting > 0 }
  /// Whether the client waits for its turn.
  func isWaiting(_ client: UInt64) -> Bool { if case .waiting = clients[client] { true } else { false } }
  /// Whether the client waits in a line so long that the turn of most will not come within a second, even where each turn
  /// ends at the first occasion (`EvictionOrder.openingTime`).
  func crowds(_ client: UInt64) -> Bool {
    guard case .waiting(let origin) = clients[client], let line = lines[origin] else { return false }
    let room = origin == nil ? total : min(total, perAddress)
    return line.count > 4 * room
  }
  /// When the client's turn came; nil if it hasn't come.
  func turnCame(for client: UInt64) -> UInt64? {
    if case .underWay(_, let since) = clients[client] { since } else { nil }
  }
  /// How many entries the tables have, for tests.
  var kept: Int { clients.count + counts.count + next.count + lines.values.reduce(0) { $0 + $1.waiting.count } }

  /// Whether the client's handshake may begin, or is under way. Otherwise the client waits.
  mutating func mayBegin(_ client: UInt64, _ origin: Origin?, now: UInt64) -> Bool {
    switch clients[client] {
    case .underWay: return true
    case .waiting: return false
    case nil: break
    }
    if underWay < total, hasRoom(origin) {
      begin(client, origin, now: now)
      return true
    }
    clients[client] = .waiting(origin)
    waiting += 1
    lines[origin, default: Line()].waiting.append(client)
    lines[origin]?.count += 1
    offer(origin)
    return false
  }

  /// The client's handshake is over, or the client is gone. Returns the clients whose turn it is now.
  mutating func end(_ client: UInt64, now: UInt64) -> [UInt64] {
    switch clients.removeValue(forKey: client) {
    case nil: return []
    case .underWay(let origin, _):
      underWay -= 1
      if let origin {
        uncount(origin)
        offer(origin)
      }
    case .waiting(let origin):
      waiting -= 1
      leave(origin)
    }
    return begin(now: now)
  }

  private mutating func begin(now: UInt64) -> [UInt64] {
    var begun: [UInt64] = []
    while underWay < total, let origin = next.popFirst() {
      lines[origin]?.isNext = false
      guard hasRoom(origin) else {
        if lines[origin]?.count == 0 { lines[origin] = nil }
        continue
      }
      guard let client = takeFirst(of: origin) else { continue }
      begin(client, origin, now: now)
      begun.append(client)
      offer(origin)
    }
    return begun
  }

  /// The handshakes that have taken too long while others wait.
  func overdue(now: UInt64) -> [UInt64] {
    guard isAwaited else { return [] }
    return clients.compactMap { client, state in
      if case .underWay(_, let since) = state, now >= since, now - since >= Self.longest { client } else { nil }
    }
  }

  private func hasRoom(_ origin: Origin?) -> Bool {
    guard let origin else { return true }
    return counts[origin, default: 0] < perAddress
  }

  private mutating func begin(_ client: UInt64, _ origin: Origin?, now: UInt64) {
    clients[client] = .underWay(origin, since: now)
    underWay += 1
    if let origin { counts[origin, default: 0] += 1 }
  }

  private mutating func uncount(_ origin: Origin) {
    let count = counts[origin, default: 0]
    counts[origin] = count > 1 ? count - 1 : nil
  }

  /// Puts the origin's line among those that are next, if somebody of it waits and may begin.
  private mutating func offer(_ origin: Origin?) {
    guard let line = lines[origin], !line.isNext, line.count > 0, hasRoom(origin) else { return }
    lines[origin]?.isNext = true
    next.append(origin)
  }

  /// Somebody who waited has left. Those who left are removed once they are half of the line, which costs each of them
  /// the same.
  private mutating func leave(_ origin: Origin?) {
    lines[origin]?.count -= 1
    guard let line = lines[origin] else { return }
    if line.count == 0, !line.isNext { return lines[origin] = nil }
    guard line.waiting.count > 2 * line.count + 16 else { return }
    let rest = line.waiting.filter { isWaiting($0) }
    lines[origin]?.waiting = rest
  }

  private mutating func takeFirst(of origin: Origin?) -> UInt64? {
    while let client = lines[origin]?.waiting.popFirst() {
      guard isWaiting(client) else { continue }
      lines[origin]?.count -= 1
      waiting -= 1
      if lines[origin]?.count == 0 { lines[origin] = nil }
      return client
    }
    lines[origin] = nil
    return nil
  }
}
