import Bytes
import Crypto
import Forward
import Synchronization
import Traffic

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
    var server: [UInt8]
    var usedAt: UInt64
  }

  /// The memory of a session: its place in the dictionary, the session and its server, with what both keep spare.
  static let bytesOfOne = 256

  let capacity: Int
  private var sessions = LRUTable<Key, Session>()

  /// `size`: of the zone, in bytes.
  init(size: Int) { capacity = max(1, size / Self.bytesOfOne) }

  var count: Int { sessions.count }

  /// The server of a session; nil if there is none, or if its time has passed.
  func server(of key: Key, now: UInt64, timeout: UInt64) -> [UInt8]? {
    guard let place = sessions.place(of: key), let session = sessions[place],
      !isOver(session, now: now, timeout: timeout)
    else { return nil }
    return session.server
  }

  /// Notes that a server has answered a session. `mayCreate`: also if the session isn't known.
  mutating func learn(_ key: Key, _ server: [UInt8], now: UInt64, timeout: UInt64, mayCreate: Bool) {
    while let oldest = sessions.oldest, let session = sessions[oldest], isOver(session, now: now, timeout: timeout) {
      sessions.remove(oldest)
    }
    if sessions.place(of: key) == nil {
      guard mayCreate else { return }
      _ = sessions.makeRoom(limit: capacity)
    }
    sessions.insert(Session(server: server, usedAt: now), for: key)
  }

  private func isOver(_ session: Session, now: UInt64, timeout: UInt64) -> Bool {
    // Two workers read the clock at slightly different times.
    now > session.usedAt && now - session.usedAt >= timeout
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
final class LearnZones: SharedPart {
  private struct Identity: Hashable {
    let name: String
    let group: String
    let size: Int
  }

  private let zones = ZoneRegistry<Identity, LearnZone>()

  init(_ shared: SharedState) {}

  func zone(_ settings: StickyLearnSettings, of group: String) -> LearnZone {
    zones.zone(Identity(name: settings.zone, group: group, size: settings.size)) { _ in LearnZone(size: settings.size) }
  }
}
