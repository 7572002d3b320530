import Bytes
import Synchronization

/// A `limit_req_zone`, shared by all workers. The lock is held for one look-up.
final class RequestZone: Sendable {
  let verdicts = VerdictCounts()
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
  let verdicts = VerdictCounts()
  private let counts: Mutex<ConnectionCounts>

  init(size: Int) { counts = Mutex(ConnectionCounts(size: size)) }

  func take(_ key: [UInt8], limit: Int) -> ConnectionCounts.Answer { counts.withLock { $0.take(key, limit: limit) } }
  func release(_ key: [UInt8]) { counts.withLock { $0.release(key) } }
}

/// What a zone has decided since the process began, for the API.
final class VerdictCounts: Sendable {
  private let passed = Atomic<UInt64>(0)
  private let delayed = Atomic<UInt64>(0)
  private let rejected = Atomic<UInt64>(0)
  private let delayedDryRun = Atomic<UInt64>(0)
  private let rejectedDryRun = Atomic<UInt64>(0)

  func count(_ verdict: LimitVerdict) { _ = withCount(verdict) { $0.wrappingAdd(1, ordering: .relaxed) } }

  func count(_ verdict: LimitVerdict, inPlaceOf other: LimitVerdict) {
    _ = withCount(other) { $0.wrappingSubtract(1, ordering: .relaxed) }
    count(verdict)
  }

  subscript(verdict: LimitVerdict) -> UInt64 { withCount(verdict) { $0.load(ordering: .relaxed) } }

  /// nginx Plus: a DELETE of the zone.
  func reset() { for verdict in LimitVerdict.allCases { withCount(verdict) { $0.store(0, ordering: .relaxed) } } }

  @inline(__always)
  private func withCount<Result>(_ verdict: LimitVerdict, _ body: (borrowing Atomic<UInt64>) -> Result) -> Result {
    switch verdict {
    case .passed: body(passed)
    case .delayed: body(delayed)
    case .rejected: body(rejected)
    case .delayedDryRun: body(delayedDryRun)
    case .rejectedDryRun: body(rejectedDryRun)
    }
  }
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
