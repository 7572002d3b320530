import Bytes
import Synchronization
import Traffic

/// A `limit_conn_zone`, shared by all workers. The lock is held for one look-up.
final class ConnectionZone: Sendable {
  let verdicts: VerdictCounts
  private let counts: Mutex<ConnectionCounts>

  init(size: Int, _ verdicts: VerdictCounts) {
    self.verdicts = verdicts
    counts = Mutex(ConnectionCounts(size: size))
  }

  func take(_ key: [UInt8], limit: Int) -> ConnectionCounts.Answer { counts.withLock { $0.take(key, limit: limit) } }
  func release(_ key: [UInt8]) { counts.withLock { $0.release(key) } }
}

/// The zones in use, by name, key and size. As in nginx, another limit keeps the states.
final class ConnectionZones: SharedPart {
  private let zones = ZoneRegistry<LimitZoneSettings.Identity, ConnectionZone>()
  private let verdicts: ZoneVerdicts

  init(_ shared: SharedState) { verdicts = shared[ZoneVerdicts.self] }

  func zone(_ settings: LimitZoneSettings) -> ConnectionZone {
    zones.zone(settings.identity) { _ in
      ConnectionZone(size: settings.size, verdicts.counts(of: settings, hasRate: false))
    }
  }
}
