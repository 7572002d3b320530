import Dispatch
import Enrolment
import Observability
import Proxy
import Transport

/// Renews the CRLs of the authorities that `enrolment` signs with, outside the event loops. If nobody renews a CRL, it
/// expires, and every certificate that it applies to is refused.
@MainActor
final class AuthorityUpkeep {
  private let shared: SharedState
  private var timer: (any DispatchSourceTimer)?
  private nonisolated static let interval = 3600

  init(_ shared: SharedState) { self.shared = shared }

  /// Starts upkeep at once and repeats it each hour, for the authorities of these settings only.
  func keep(_ http: HTTPSettings, log: ErrorLog) {
    timer?.cancel()
    timer = nil
    let desks = http.everyLocation.compactMap { place -> EnrolmentSettings? in
      place.settings[EnrolmentSettings.self]
    }
    let settings = Dictionary(desks.map { ($0.authority, $0) }, uniquingKeysWith: { first, _ in first }).values
    guard !settings.isEmpty else { return }
    timer = Self.timer { [shared] in
      for settings in settings {
        // Skips an authority whose upkeep still waits for its lock since an hour ago.
        guard shared.pool.waiting(.authorities, for: "\(settings.authority)") == 0 else { continue }
        _ = shared.pool.run(.authorities, for: "\(settings.authority)") { Self.keepUp(settings, shared, log) }
      }
    }
  }

  private nonisolated static func timer(_ body: @escaping @Sendable () -> Void) -> any DispatchSourceTimer {
    let timer = DispatchSource.makeTimerSource(queue: .global(qos: .utility))
    timer.schedule(deadline: .now(), repeating: .seconds(interval), leeway: .seconds(10))
    timer.setEventHandler(handler: body)
    timer.activate()
    return timer
  }

  private nonisolated static func keepUp(_ settings: EnrolmentSettings, _ shared: SharedState, _ log: ErrorLog) {
    do throws(AuthorityError) {
      if let end = try EnrolmentService(settings, shared.enrolment).keepUp() {
        log.notice("\"\(settings.authority)\": the revocation list was renewed, valid until \(end)")
      }
    } catch {
      log.error("\"\(settings.authority)\": the upkeep of the authority failed: \(error)")
    }
  }
}
