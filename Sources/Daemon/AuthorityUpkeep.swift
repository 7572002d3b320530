import Dispatch
import Enrolment
import Observability
import Proxy
import Synchronization
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
  private nonisolated static let fetchInterval = 5

  init(_ shared: SharedState) { self.shared = shared }

  /// Starts upkeep at once and repeats it each hour, for the authorities of these settings only.
  func keep(_ http: HTTPSettings, log: ErrorLog) {
    for timer in timers { timer.cancel() }
    timers = []
    let desks = http.everyLocation.compactMap { place -> EnrolmentSettings? in
      place.settings[EnrolmentSettings.self]
    }
    let settings = Dictionary(desks.map { ($0.authority, $0) }, uniquingKeysWith: { first, _ in first }).values
    guard !settings.isEmpty else { return }
    let (pool, state) = (shared.pool, shared.enrolment)
    timers.append(Self.timer(of: Array(settings), each: Self.interval, pool) { Self.keepUp($0, state, log) })
    for settings in settings where settings.hasDatabase {
      let standing = FetchStanding()
      timers.append(Self.timer(of: [settings], each: Self.fetchInterval, pool) { Self.fetch($0, state, standing, log) })
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

  /// Whether the last fetch succeeded, so that each change of it is told once.
  private final class FetchStanding: Sendable {
    let fault = Mutex<AuthorityError?>(nil)
  }

  private nonisolated static func fetch(
    _ settings: EnrolmentSettings, _ state: EnrolmentState, _ standing: FetchStanding, _ log: ErrorLog
  ) {
    do throws(AuthorityError) {
      let isNew = try EnrolmentService(settings, state).fetchList()
      let former = standing.fault.withLock { fault in
        defer { fault = nil }
        return fault
      }
      if former != nil { log.notice("\"\(settings.authority)\": the revocation list can be fetched again") }
      if isNew { log.notice("\"\(settings.authority)\": the revocation list of another machine was fetched") }
    } catch {
      let isTold = standing.fault.withLock { fault in
        defer { fault = error }
        return fault != nil
      }
      if !isTold {
        log.error("\"\(settings.authority)\": what other machines revoke is not known here: \(error)")
      }
    }
  }

  private nonisolated static func keepUp(_ settings: EnrolmentSettings, _ state: EnrolmentState, _ log: ErrorLog) {
    do throws(AuthorityError) {
      if let end = try EnrolmentService(settings, state).keepUp() {
        log.notice("\"\(settings.authority)\": the revocation list was renewed, valid until \(end)")
      }
    } catch {
      log.error("\"\(settings.authority)\": the upkeep of the authority failed: \(error)")
    }
  }
}
