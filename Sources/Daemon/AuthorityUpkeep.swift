import Dispatch
import Enrolment
import Forward
import Observability
import Synchronization
import Traffic
import Transport

/// Renews the CRLs of the authorities that `enrolment` signs with, outside the event loops. If nobody renews a CRL, it
/// expires, and every certificate that it applies to is refused.
///
/// Where a database keeps the register, another machine may have revoked a certificate there: its CRL is fetched, too.
@MainActor
final class AuthorityUpkeep {
  private let shared: SharedState
  private var timers: [any DispatchSourceTimer] = []
  /// Seconds.
  private nonisolated static let interval = 3600
  /// After a failure the next attempt comes with the next look.
  private nonisolated static let lookInterval = 60
  private nonisolated static let fetchInterval = 5

  init(_ shared: SharedState) { self.shared = shared }

  /// Starts upkeep at once and repeats it each hour, for the authorities of these settings only.
  func keep(_ http: HTTPSettings, log: ErrorLog) {
    for timer in timers { timer.cancel() }
    timers = []
    let desks = http.everyLocation.compactMap { place -> EnrolmentSettings? in
      place.settings[EnrolmentSettings.self]
    }
    let names = Set(desks.map { "\($0.authority)" })
    shared.ongoing.keep(.register, only: names)
    shared.ongoing.keep(.upkeep, only: names)
    let settings = Dictionary(desks.map { ($0.authority, $0) }, uniquingKeysWith: { first, _ in first }).values
    guard !settings.isEmpty else { return }
    let (pool, state, faults) = (shared.pool, shared.enrolment, shared.ongoing)
    for settings in settings {
      let turn = UpkeepTurn()
      timers.append(
        Self.timer(of: [settings], each: Self.lookInterval, pool) { Self.keepUp($0, state, turn, faults, log) })
    }
    for settings in settings where settings.hasDatabase {
      let standing = FetchStanding()
      timers.append(
        Self.timer(of: [settings], each: Self.fetchInterval, pool) {
          Self.fetch($0, state, standing, faults, log)
        })
    }
  }

  private static func timer(
    of all: [EnrolmentSettings], each seconds: Int, _ pool: BlockingPool,
    _ work: @escaping @Sendable (EnrolmentSettings) -> Void
  ) -> any DispatchSourceTimer {
    let timer = DispatchSource.makeTimerSource(queue: .main)
    timer.schedule(deadline: .now(), repeating: .seconds(seconds), leeway: .milliseconds(seconds * 10))
    timer.setEventHandler {
      for settings in all {
        // Skips an authority whose work still waits since the last time, for its lock or its database.
        guard pool.waiting(.authorities, for: "\(settings.authority)") == 0 else { continue }
        _ = pool.run(.authorities, for: "\(settings.authority)") { work(settings) }
      }
    }
    timer.activate()
    return timer
  }

  /// When the next upkeep of an authority is due, in seconds of the monotonic clock, and why the last one failed.
  private final class UpkeepTurn: Sendable {
    let state = Mutex<(dueAt: Int64, fault: String?)>((0, nil))
  }

  /// Whether the last fetch succeeded, so that each change of it is told once.
  private final class FetchStanding: Sendable {
    let fault = Mutex<AuthorityError?>(nil)
  }

  private nonisolated static func fetch(
    _ settings: EnrolmentSettings, _ state: EnrolmentState, _ standing: FetchStanding,
    _ faults: OngoingFaults, _ log: ErrorLog
  ) {
    do throws(AuthorityError) {
      let isNew = try EnrolmentService(settings, state).fetchList()
      faults.note(.register, "\(settings.authority)", nil)
      let former = standing.fault.withLock { fault in
        defer { fault = nil }
        return fault
      }
      if former != nil { log.notice("\"\(settings.authority)\": the revocation list can be fetched again") }
      if isNew { log.notice("\"\(settings.authority)\": the revocation list of another machine was fetched") }
    } catch {
      faults.note(
        .register, "\(settings.authority)",
        "\"\(settings.authority)\": what other machines revoke is not known here: \(error)")
      let isTold = standing.fault.withLock { fault in
        defer { fault = error }
        return fault != nil
      }
      if !isTold {
        log.error("\"\(settings.authority)\": what other machines revoke is not known here: \(error)")
      }
    }
  }

  private nonisolated static func keepUp(
    _ settings: EnrolmentSettings, _ state: EnrolmentState, _ turn: UpkeepTurn, _ faults: OngoingFaults,
    _ log: ErrorLog
  ) {
    let now = MonotonicClock.seconds, name = "\(settings.authority)"
    guard turn.state.withLock({ $0.dueAt }) <= now else { return }
    do throws(AuthorityError) {
      let end = try EnrolmentService(settings, state).keepUp()
      turn.state.withLock { $0 = (now &+ Int64(interval), nil) }
      faults.note(.upkeep, name, nil)
      if let end { log.notice("\"\(name)\": the revocation list was renewed, valid until \(end)") }
    } catch {
      let reason = "\(error)"
      let former = turn.state.withLock { state in
        defer { state.fault = reason }
        return state.fault
      }
      faults.note(.upkeep, name, "\"\(name)\": the upkeep of the authority failed: \(reason)")
      // The attempts go on each minute.
      if former != reason { log.error("\"\(name)\": the upkeep of the authority failed: \(reason)") }
    }
  }
}
