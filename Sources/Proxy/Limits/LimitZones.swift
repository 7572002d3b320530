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

/// The zones in use. A generation that declares a zone with the name, key and size of an earlier one gets the same
/// object, so a reload forgets no request. As in nginx, another rate keeps the states.
///
/// A zone lives as long as a location of a worker that uses it.
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

  private struct Weak<Zone: AnyObject & Sendable>: Sendable {
    weak var zone: Zone?
  }

  private let requests = Mutex<[Identity: Weak<RequestZone>]>([:])
  private let connections = Mutex<[Identity: Weak<ConnectionZone>]>([:])

  func requestZone(_ settings: LimitZoneSettings) -> RequestZone {
    requests.withLock { Self.zone(settings, in: &$0) { RequestZone(size: $0) } }
  }

  func connectionZone(_ settings: LimitZoneSettings) -> ConnectionZone {
    connections.withLock { Self.zone(settings, in: &$0) { ConnectionZone(size: $0) } }
  }

  private static func zone<Zone: AnyObject & Sendable>(
    _ settings: LimitZoneSettings, in zones: inout [Identity: Weak<Zone>], make: (Int) -> Zone
  ) -> Zone {
    let identity = Identity(settings)
    if let zone = zones[identity]?.zone { return zone }
    zones = zones.filter { $0.value.zone != nil }
    let zone = make(settings.size)
    zones[identity] = Weak(zone: zone)
    return zone
  }
}
