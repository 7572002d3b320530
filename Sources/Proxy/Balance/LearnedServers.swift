import Crypto
import Synchronization

/// The servers of `sticky learn`'s sessions, in the order of their use, within the zone's size. The caller brings the
/// clock. If the zone is full, the session that was used least recently makes room.
struct LearnedServers {
  /// The digest of a session's name: clients choose names, so none is kept.
  struct Key: Hashable, Sendable {
    private let high: UInt64
    private let low: UInt64

    init(_ name: [UInt8]) {
      let digest = Digest.of(name)
      func word(_ start: Int) -> UInt64 { digest.dropFirst(start).prefix(8).reduce(0) { $0 << 8 | UInt64($1) } }
      (high, low) = (word(0), word(8))
    }
  }

  private struct Session {
    var key: Key
    var server: [UInt8]
    var usedAt: UInt64
    /// Towards the one used more recently, and less recently; -1 at the ends.
    var newer = -1
    var older = -1
  }

  /// The memory of a session: its place in the dictionary, the session and its server, with what both keep spare.
  static let bytesOfOne = 256

  let capacity: Int
  private var sessions: [Session] = []
  private var unused: [Int] = []
  private var places: [Key: Int] = [:]
  private var newest = -1
  private var oldest = -1

  /// `size`: of the zone, in bytes.
  init(size: Int) { capacity = max(1, size / Self.bytesOfOne) }

  var count: Int { places.count }

  /// The server of a session; nil if there is none, or if its time has passed.
  func server(of key: Key, now: UInt64, timeout: UInt64) -> [UInt8]? {
    guard let place = places[key], !isOver(sessions[place], now: now, timeout: timeout) else { return nil }
    return sessions[place].server
  }

  /// Notes that a server has answered a session. `mayCreate`: also if the session isn't known.
  mutating func learn(_ key: Key, _ server: [UInt8], now: UInt64, timeout: UInt64, mayCreate: Bool) {
    while oldest >= 0, isOver(sessions[oldest], now: now, timeout: timeout) { dropOldest() }
    if let place = places[key] {
      unlink(place)
      sessions[place].server = server
      sessions[place].usedAt = now
      return link(place)
    }
    guard mayCreate else { return }
    if places.count >= capacity { dropOldest() }
    let session = Session(key: key, server: server, usedAt: now)
    let place = unused.popLast() ?? sessions.count
    if place == sessions.count { sessions.append(session) } else { sessions[place] = session }
    places[key] = place
    link(place)
  }

  private func isOver(_ session: Session, now: UInt64, timeout: UInt64) -> Bool {
    // Two workers read the clock at slightly different times.
    now > session.usedAt && now - session.usedAt >= timeout
  }

  private mutating func dropOldest() {
    guard oldest >= 0 else { return }
    let place = oldest
    unlink(place)
    places[sessions[place].key] = nil
    sessions[place].server = []
    unused.append(place)
  }

  private mutating func link(_ place: Int) {
    sessions[place].newer = -1
    sessions[place].older = newest
    if newest >= 0 { sessions[newest].newer = place } else { oldest = place }
    newest = place
  }

  private mutating func unlink(_ place: Int) {
    let (newer, older) = (sessions[place].newer, sessions[place].older)
    if newer >= 0 { sessions[newer].older = older } else { newest = older }
    if older >= 0 { sessions[older].newer = newer } else { oldest = newer }
  }
}

/// The zone of a `sticky learn`, shared by all workers. The lock is held for one look-up.
final class LearnZone: Sendable {
  private let servers: Mutex<LearnedServers>

  init(size: Int) { servers = Mutex(LearnedServers(size: size)) }

  func server(of key: LearnedServers.Key, now: UInt64, timeout: UInt64) -> [UInt8]? {
    servers.withLock { $0.server(of: key, now: now, timeout: timeout) }
  }

  func learn(_ key: LearnedServers.Key, _ server: [UInt8], now: UInt64, timeout: UInt64, mayCreate: Bool) {
    servers.withLock { $0.learn(key, server, now: now, timeout: timeout, mayCreate: mayCreate) }
  }
}

/// The zones of `sticky learn` in use. A reload keeps the sessions of a zone with the same name, group and size.
final class LearnZones: Sendable {
  private struct Identity: Hashable {
    let name: String
    let group: String
    let size: Int
  }

  private struct Weak: Sendable {
    weak var zone: LearnZone?
  }

  private let zones = Mutex<[Identity: Weak]>([:])

  func zone(_ settings: StickyLearnSettings, of group: String) -> LearnZone {
    let identity = Identity(name: settings.zone, group: group, size: settings.size)
    return zones.withLock { zones in
      if let zone = zones[identity]?.zone { return zone }
      zones = zones.filter { $0.value.zone != nil }
      let zone = LearnZone(size: settings.size)
      zones[identity] = Weak(zone: zone)
      return zone
    }
  }
}
