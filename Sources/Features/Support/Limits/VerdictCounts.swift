import Bytes
import Observability
import Synchronization
import Traffic
import Transport

/// The value of a limit's variable.
enum LimitVerdict: CaseIterable {
  case passed, delayed, rejected, delayedDryRun, rejectedDryRun

  var name: StaticString {
    switch self {
    case .passed: "PASSED"
    case .delayed: "DELAYED"
    case .rejected: "REJECTED"
    case .delayedDryRun: "DELAYED_DRY_RUN"
    case .rejectedDryRun: "REJECTED_DRY_RUN"
    }
  }

  /// The value of a label: `delayed_dry_run`.
  var label: String { "\(name)".lowercased() }

  /// Those of a zone. `hasRate`: it is one of `limit_req_zone`.
  static func all(hasRate: Bool) -> [LimitVerdict] {
    hasRate ? allCases : [.passed, .rejected, .rejectedDryRun]
  }
}

/// What a zone has decided since the process began, or since the API has set its counts back.
final class VerdictCounts: Sendable {
  private let passed = Atomic<UInt64>(0)
  private let delayed = Atomic<UInt64>(0)
  private let rejected = Atomic<UInt64>(0)
  private let delayedDryRun = Atomic<UInt64>(0)
  private let rejectedDryRun = Atomic<UInt64>(0)
  /// By the addresses of the clients.
  private let recent = Mutex(RecentRefusals())

  func count(_ verdict: LimitVerdict) { _ = withCount(verdict) { $0.wrappingAdd(1, ordering: .relaxed) } }

  /// Counts a request or session that is refused, or would be.
  func count(_ verdict: LimitVerdict, of transaction: Transaction) {
    count(verdict)
    guard verdict == .rejected else { return }
    let host = transaction.clientAddress.host, now = MonotonicClock.seconds
    recent.withLock { $0.note(host, passed: letIn, at: now) }
  }

  /// What was refused within the last ten minutes; nil: nothing.
  var refusals: RecentRefusals.Summary? {
    recent.withLock { $0.summary(passed: letIn, at: MonotonicClock.seconds) }
  }

  private var letIn: UInt64 { self[.passed] &+ self[.delayed] }

  subscript(verdict: LimitVerdict) -> UInt64 { withCount(verdict) { $0.load(ordering: .relaxed) } }

  /// nginx Plus: a DELETE of the zone.
  func reset() {
    for verdict in LimitVerdict.allCases { withCount(verdict) { $0.store(0, ordering: .relaxed) } }
    recent.withLock { $0 = RecentRefusals() }
  }

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

/// What the zones in use have decided, by name, key and size. As in nginx, another rate keeps it.
final class ZoneVerdicts: SharedPart {
  private let requests = ZoneRegistry<LimitZoneSettings.Identity, VerdictCounts>()
  private let connections = ZoneRegistry<LimitZoneSettings.Identity, VerdictCounts>()

  init(_ shared: SharedState) {}

  /// `hasRate`: the zone is one of `limit_req_zone`.
  func counts(of zone: LimitZoneSettings, hasRate: Bool) -> VerdictCounts {
    (hasRate ? requests : connections).zone(zone.identity) { _ in VerdictCounts() }
  }
}
