import Bytes
import Synchronization
import Traffic

/// A `limit_req_zone`, shared by all workers. The lock is held for one look-up.
final class RequestZone: Sendable {
  let verdicts: VerdictCounts
  private let states: Mutex<RequestStates>

  init(size: Int, _ verdicts: VerdictCounts) {
    self.verdicts = verdicts
    states = Mutex(RequestStates(size: size))
  }

  func ask(_ key: [UInt8], rate: Int, burst: Int, now: UInt64, isLast: Bool) -> RequestStates.Answer {
    states.withLock { $0.ask(key, rate: rate, burst: burst, now: now, isLast: isLast) }
  }

  func settle(_ reservation: RequestStates.Reservation, rate: Int, now: UInt64) -> Int {
    states.withLock { $0.settle(reservation, rate: rate, now: now) }
  }

  func release(_ reservation: RequestStates.Reservation) { states.withLock { $0.release(reservation) } }
}

/// The zones in use, by name, key and size. As in nginx, another rate keeps the states.
final class RequestZones: SharedPart {
  private let zones = ZoneRegistry<LimitZoneSettings.Identity, RequestZone>()
  private let verdicts: ZoneVerdicts

  init(_ shared: SharedState) { verdicts = shared[ZoneVerdicts.self] }

  func zone(_ settings: LimitZoneSettings) -> RequestZone {
    zones.zone(settings.identity) { _ in
      RequestZone(size: settings.size, verdicts.counts(of: settings, hasRate: true))
    }
  }
}
