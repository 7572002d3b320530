import Crypto
import Dispatch
import Glibc
import Observability
import TLS
import Traffic
import Transport

/// Requests OCSP responses for the server's own certificates, outside the event loops, and again before they expire.
/// Between two requests is an hour, as in nginx, or half of a shorter remaining time, but at least five minutes.
///
/// An old response stays until it expires, so an unreachable responder changes nothing until then.
@MainActor
final class StapleRefresh {
  private let pool: BlockingPool
  private var round = 0
  /// Keyed by the identity of the staple. Each timer retains its staple and log until it is cancelled.
  private(set) var timers: [ObjectIdentifier: any DispatchSourceTimer] = [:]
  private nonisolated static let soonest: Int64 = 300
  private nonisolated static let latest: Int64 = 3600

  private let faults: OngoingFaults
  private var staples: [Staple] = []

  init(pool: BlockingPool, faults: OngoingFaults = OngoingFaults()) {
    self.pool = pool
    self.faults = faults
  }

  /// Notes for which certificates handshakes go without a response. Call it every few seconds.
  func look(now: Int64 = Int64(time(nil))) {
    var missing: [String: String] = [:]
    for staple in staples {
      guard let reason = staple.absence(at: now) else { continue }
      let subject = "\(staple.question.certificate.subject)"
      missing[subject] = "no OCSP response is sent with the certificate of \(subject): \(reason)"
    }
    faults.set(.staple, missing)
  }

  /// Refreshes these staples from now on, and stops refreshing those of an earlier generation.
  func refresh(_ staples: [Staple], log: ErrorLog) {
    round += 1
    self.staples = staples
    for timer in timers.values { timer.cancel() }
    timers = [:]
    for staple in staples where !staple.isFromFile { ask(staple, round, log) }
  }

  private func ask(_ staple: Staple, _ round: Int, _ log: ErrorLog) {
    let responder = staple.responders.first
    // The configuration bounds the number of staples, so the pool always accepts the work.
    _ = pool.run(.staples, for: responder?.address ?? "") { [self] in
      let delay = Self.answer(staple, log)
      DispatchQueue.main.async { MainActor.assumeIsolated { self.wait(delay, with: staple, round, log) } }
    }
  }

  private func wait(_ seconds: Int64, with staple: Staple, _ round: Int, _ log: ErrorLog) {
    guard round == self.round else { return }
    let timer = DispatchSource.makeTimerSource(queue: .main)
    timer.schedule(deadline: .now() + .seconds(Int(seconds)), leeway: .seconds(1))
    timer.setEventHandler { [unowned self] in
      MainActor.assumeIsolated {
        timers.removeValue(forKey: ObjectIdentifier(staple))?.cancel()
        ask(staple, round, log)
      }
    }
    timers[ObjectIdentifier(staple)] = timer
    timer.activate()
  }

  /// Refreshes the response. Returns the seconds until the next refresh.
  private nonisolated static func answer(_ staple: Staple, _ log: ErrorLog) -> Int64 {
    let now = Int64(time(nil))
    // The response that a reload kept has its turn when it would have had it without the reload.
    if let end = staple.validUntil, let age = staple.age {
      let left = wait(age: age, left: end - now)
      if left > 0 { return left }
    }
    let subject = "\(staple.question.certificate.subject)"
    let responders = staple.responders
    if responders.isEmpty {
      staple.fail("no http responder is named")
      log.error("OCSP for \(subject): no http responder is named")
      return latest
    }
    let time = SharedTime(milliseconds: StatusResponder.standardTimeLimit)
    for (index, responder) in responders.enumerated() {
      guard let share = time.share(of: responders.count - index) else { break }
      do throws(OCSPError) {
        let addresses =
          try staple.responder == nil
          ? responder.addressesForCertificate(elseBy: "name the responder in ssl_stapling_responder") : nil
        let (answer, der) = try responder.ask(staple.question, now: now, at: addresses, within: share)
        guard answer.status == .good else {
          staple.fail("the responder says \(answer.status)")
          log.error("OCSP for \(subject): the responder says \(answer.status): not stapled")
          return soonest
        }
        staple.put(der, validUntil: answer.validUntil)
        log.info("OCSP for \(subject): stapled")
        return wait(age: 0, left: answer.validUntil - now)
      } catch {
        staple.fail("\(error)")
        let next = index + 1 < responders.count ? "; the next responder is asked" : ""
        log.error("OCSP for \(subject): \(error)\(next)")
      }
    }
    return soonest
  }

  /// Seconds until the responder is asked for a newer response; 0 if it is due. `age`: seconds since the response came.
  /// `left`: seconds until it ends.
  nonisolated static func wait(age: Int64, left: Int64) -> Int64 {
    let (whole, isTooLong) = max(0, left).addingReportingOverflow(max(0, age))
    let interval = max(soonest, min(latest, (isTooLong ? .max : whole) / 2))
    return max(0, interval - max(0, age))
  }
}
