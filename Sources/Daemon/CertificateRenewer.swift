import ACME
import Dispatch
import Features
import Glibc
import Observability
import Traffic
import Transport

/// Gets and renews the certificates of `acme_certificate`, beside the event loops.
///
/// The certificate that serves stays as long as no new one has come whole. A new one is taken up by a reload of files,
/// which loses no connection.
@MainActor
final class CertificateRenewer {
  private struct Entry {
    var state: ACMERenewalState
    /// What came of the last look; nil: there was none.
    var record: RenewalRecord?
    /// Seconds since 1970.
    var lookAt: Int64 = 0
    var isForced = false
    /// nil: no look is being taken.
    var running: CertificateOrder.GiveUp?
  }

  private let shared: SharedState
  private let hook: ChallengeHook?
  private var entries: [ACMECertificateSettings: Entry] = [:]
  private var timer: (any DispatchSourceTimer)?
  private var log: ErrorLog?
  private var didGetNew: @MainActor () -> Void = {}
  private static let interval = 1

  init(_ shared: SharedState, _ hook: ChallengeHook?) {
    self.hook = hook
    self.shared = shared
  }

  /// Takes care of the certificates of these settings from now on, and of no others. What is known of those that stay
  /// stays, and so do orders in progress. `didGetNew`: called for each new certificate.
  func follow(_ http: HTTPSettings, log: ErrorLog, didGetNew: @escaping @MainActor () -> Void) {
    self.log = log
    self.didGetNew = didGetNew
    let wanted = Set(http[ACMESettings.self].certificates)
    for (settings, entry) in entries where !wanted.contains(settings) {
      entry.running?.set()
      entries.removeValue(forKey: settings)
    }
    for settings in wanted where entries[settings] == nil {
      entries[settings] = Entry(
        state: ACMERenewalState(
          issuer: settings.issuer.name, names: settings.description, notAfter: nil, nextTry: 0, failures: 0,
          lastError: ""))
    }
    if wanted.isEmpty {
      timer?.cancel()
      timer = nil
      tell()
    } else if timer == nil {
      start()
    }
  }

  /// The process drains: orders in progress are given up, and the process that replaces this one makes them.
  func stop() {
    for entry in entries.values { entry.running?.set() }
    entries = [:]
    timer?.cancel()
    timer = nil
  }

  private func start() {
    let timer = DispatchSource.makeTimerSource(queue: .main)
    timer.schedule(deadline: .now(), repeating: .seconds(Self.interval), leeway: .milliseconds(100))
    timer.setEventHandler { [unowned self] in MainActor.assumeIsolated { look() } }
    timer.activate()
    self.timer = timer
  }

  private func look() {
    takeRequests()
    let now = Int64(time(nil))
    for (settings, entry) in entries where entry.running == nil && (entry.lookAt <= now || entry.isForced) {
      begin(settings, entry, at: now)
    }
  }

  /// What `sallyport acme renew` asks for.
  private func takeRequests() {
    for issuer in Set(entries.keys.map(\.issuer)) {
      guard let name = StateFolder(issuer.stateFolder).takeRequest() else { continue }
      log?.notice("acme_issuer \(issuer.name): an operator asks for new certificates")
      for settings in entries.keys where settings.issuer == issuer && (name == "*" || name == settings.fileName) {
        entries[settings]?.isForced = true
      }
    }
  }

  private func begin(_ settings: ACMECertificateSettings, _ entry: Entry, at now: Int64) {
    guard let log else { return }
    let giveUp = CertificateOrder.GiveUp()
    let order = CertificateOrder(
      settings: settings, shared: shared, hook: hook, log: log, isForced: entry.isForced, giveUp: giveUp,
      remembered: entry.record)
    entries[settings]?.running = giveUp
    entries[settings]?.isForced = false
    // The configuration bounds the number of orders, so the pool always accepts the work.
    _ = shared.pool.run(.orders, for: settings.issuer.stateFolder) {
      let outcome = order.run(at: Int64(time(nil)))
      DispatchQueue.main.async { MainActor.assumeIsolated { self.didEnd(settings, giveUp, outcome) } }
    }
  }

  private func didEnd(
    _ settings: ACMECertificateSettings, _ giveUp: CertificateOrder.GiveUp, _ outcome: CertificateOrder.Outcome
  ) {
    guard var entry = entries[settings], entry.running === giveUp else { return }
    entry.running = nil
    entry.lookAt = outcome.lookAt
    entry.record = outcome.record
    entry.state.notAfter = outcome.notAfter
    entry.state.nextTry = outcome.record.failures > 0 ? outcome.record.nextTry : outcome.lookAt
    entry.state.failures = outcome.record.failures
    entry.state.lastError = outcome.record.lastError
    entry.state.unwritten = outcome.unwritten
    entries[settings] = entry
    tell()
    if outcome.isNew { didGetNew() }
  }

  private func tell() {
    shared[ACMERenewals.self].take(entries.values.map(\.state).sorted { ($0.issuer, $0.names) < ($1.issuer, $1.names) })
  }
}
