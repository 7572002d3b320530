import DequeModule
import Transport

/// The TLS handshakes of one worker that are under way, and the clients that wait for their turn (`ssl_handshake_limit`).
/// Pure: the caller brings numbers of clients, and the time (milliseconds of one monotonic clock).
///
/// A handshake is under way from the client's first byte on, because it takes its memory then. A client that waits has
/// taken almost nothing. Addresses take turns, so one address with many clients delays another by one handshake. Each
/// operation takes constant time on average, however many clients wait. Who waits has a place under `worker_connections`,
/// which bounds the queue (`ConnectionRoom`).
struct HandshakeTurns {
  /// What the limit of an address counts together.
  enum Origin: Hashable {
    case ipv4(UInt32)
    /// The first 64 bits: one host may have all addresses that begin with them.
    case ipv6(UInt64)
    /// Clients of unix sockets, which no limit of an address concerns.
    case local

    init(_ address: SocketAddress) {
      switch address {
      case .ipv4(let address, _): self = .ipv4(address)
      // RFC 4291 §2.5.5.2: `::ffff:a.b.c.d` stands for an IPv4 client of a socket for both.
      case .ipv6(0, let low, _) where low >> 32 == 0xFFFF: self = .ipv4(UInt32(truncatingIfNeeded: low))
      case .ipv6(let high, _, _): self = .ipv6(high)
      case .unix: self = .local
      }
    }
  }

  private struct Turn {
    let origin: Origin
    var since: UInt64
  }

  /// The clients of one address.
  private struct Line {
    var underWay = 0
    /// In the order in which they came; with some that have left since, which are skipped.
    var waiting: Deque<UInt64> = []
    /// Those of `waiting` that haven't left.
    var count = 0
    var isInRing = false
  }

  /// Milliseconds after which a handshake gives its turn to one that waits; and if more wait than are under way.
  static let longest: UInt64 = 3000, longestInCrowd: UInt64 = 1000

  private(set) var limits: HandshakeLimits
  private var underWay: [UInt64: Turn] = [:]
  private var waiting: [UInt64: Origin] = [:]
  private var lines: [Origin: Line] = [:]
  /// The addresses whose turn comes next, each once, with some that can't have one now, which are skipped.
  private var ring: Deque<Origin> = []

  init(_ limits: HandshakeLimits) { self.limits = limits }

  var isAwaited: Bool { !waiting.isEmpty }
  var waitingCount: Int { waiting.count }
  var underWayCount: Int { underWay.count }

  enum Answer { case begins, waits, stillWaits }

  /// Whether the client's handshake may begin, or is under way. Otherwise the client waits.
  mutating func ask(_ client: UInt64, _ origin: Origin, now: UInt64) -> Answer {
    if underWay[client] != nil { return .begins }
    if waiting[client] != nil { return .stillWaits }
    var line = lines[origin] ?? Line()
    defer { lines[origin] = line }
    if underWay.count < limits.total, line.count == 0, hasTurn(line, of: origin) {
      line.underWay += 1
      underWay[client] = Turn(origin: origin, since: now)
      return .begins
    }
    waiting[client] = origin
    line.waiting.append(client)
    line.count += 1
    enter(&line, origin)
    return .waits
  }

  /// The client's handshake is over, or the client is gone. Returns the clients whose turn it is now.
  mutating func end(_ client: UInt64, now: UInt64) -> [UInt64] {
    if let turn = underWay.removeValue(forKey: client) {
      leave(turn.origin) { $0.underWay -= 1 }
    } else if let origin = waiting.removeValue(forKey: client) {
      leave(origin) { $0.count -= 1 }
    }
    return isAwaited ? beginNext(now: now) : []
  }

  /// Replaces the limits. Returns the clients whose turn it is now.
  mutating func apply(_ limits: HandshakeLimits, now: UInt64) -> [UInt64] {
    guard limits != self.limits else { return [] }
    self.limits = limits
    for origin in Array(lines.keys) { leave(origin) { _ in } }
    return beginNext(now: now)
  }

  /// The handshakes that have taken too long while others wait.
  func overdue(now: UInt64) -> [UInt64] {
    guard isAwaited else { return [] }
    let longest = waiting.count > underWay.count ? Self.longestInCrowd : Self.longest
    return underWay.filter { now >= $0.value.since && now - $0.value.since >= longest }.map(\.key)
  }

  // MARK: Lines

  private func hasTurn(_ line: Line, of origin: Origin) -> Bool {
    origin == .local || line.underWay < limits.perAddress
  }

  private mutating func enter(_ line: inout Line, _ origin: Origin) {
    guard !line.isInRing, line.count > 0, hasTurn(line, of: origin) else { return }
    line.isInRing = true
    ring.append(origin)
  }

  private mutating func leave(_ origin: Origin, _ change: (inout Line) -> Void) {
    guard var line = lines.removeValue(forKey: origin) else { return }
    change(&line)
    enter(&line, origin)
    // Those who left must not take memory for as long as their line stands still.
    if line.waiting.count > 2 * line.count + 64 { line.waiting.removeAll { waiting[$0] != origin } }
    if line.underWay > 0 || line.count > 0 || line.isInRing { lines[origin] = line }
  }

  private mutating func beginNext(now: UInt64) -> [UInt64] {
    var begun: [UInt64] = []
    while underWay.count < limits.total, let origin = ring.popFirst() {
      leave(origin) { line in
        line.isInRing = false
        guard line.count > 0, hasTurn(line, of: origin) else { return }
        while let client = line.waiting.popFirst() {
          guard waiting.removeValue(forKey: client) != nil else { continue }
          line.count -= 1
          line.underWay += 1
          underWay[client] = Turn(origin: origin, since: now)
          begun.append(client)
          return
        }
      }
    }
    return begun
  }
}
