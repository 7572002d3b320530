import Bytes
import Synchronization

/// A `limit_req_zone`, shared by all workers. The lock is held for one look-up.
final class RequestZone: Sendable {
  private let states: Mutex<RequestStates>

  init(size: Int) { states = Mutex(RequestStates(size: size)) }

  func ask(_ key: [UInt8], rate: Int, burst: Int, now: UInt64, isLast: Bool) -> RequestStates.Answer {
    states.withLock { $0.ask(key, rate: rate, burst: burst, now: now, isLast: isLast) }
  }

  func settle(_ reservation: RequestStates.Reservation, rate: Int, now: UInt64) -> Int {
    states.withLock { $0.settle(reservation, rate: rate, now: now) }
  }

  func release(_ reservation: RequestStates.Reservation) { states.withLock { $0.release(reservation) } }
}

/// A `limit_conn_zone`, shared by all workers. The lock is held for one look-up.
final class ConnectionZone: Sendable {
  private let counts: Mutex<ConnectionCounts>

  init(size: Int) { counts = Mutex(ConnectionCounts(size: size)) }

  func take(_ key: [UInt8], limit: Int) -> ConnectionCounts.Answer { counts.withLock { $0.take(key, limit: limit) } }
  func release(_ key: [UInt8]) { counts.withLock { $0.release(key) } }
}

/// The zones in use, by name, key and size. As in nginx, another rate keeps the states.
final class LimitZones: Sendable {
  private struct Identity: Hashable {
    let name: String
    let spelling: String
    let size: Int

    init(_ settings: LimitZoneSettings) {
      name = settings.name
      spelling = settings.spelling
      size = settings.size
    }
  }

  private let requests = ZoneRegistry<Identity, RequestZone>()
  private let connections = ZoneRegistry<Identity, ConnectionZone>()

  func requestZone(_ settings: LimitZoneSettings) -> RequestZone {
    requests.zone(Identity(settings)) { _ in RequestZone(size: settings.size) }
  }

  func connectionZone(_ settings: LimitZoneSettings) -> ConnectionZone {
    connections.zone(Identity(settings)) { _ in ConnectionZone(size: settings.size) }
  }
}
