import Crypto
import Dispatch
import Glibc
import Observability
import TLS
import Transport

/// Asks for OCSP responses about our own certificates, off every loop, and again before they end (nginx's times: an
/// hour, or half of what is left, no less than five minutes).
///
/// An old response stays until it ends: a responder that can't be reached takes nothing away before.
@MainActor
final class StapleRefresh {
  private let pool: BlockingPool
  private var round = 0
  /// By what they wait with. Each holds its staple and log until it is cancelled.
  private(set) var timers: [ObjectIdentifier: any DispatchSourceTimer] = [:]
  private nonisolated static let soonest: Int64 = 300
  private nonisolated static let latest: Int64 = 3600

  init(pool: BlockingPool) { self.pool = pool }

  /// These from now on, and no others: those of an earlier generation are let go at once.
  func refresh(_ staples: [Staple], log: ErrorLog) {
    round += 1
    for timer in timers.values { timer.cancel() }
    timers = [:]
    for staple in staples where !staple.isFromFile { ask(staple, round, log) }
  }

  private func ask(_ staple: Staple, _ round: Int, _ log: ErrorLog) {
    let responder = staple.responder ?? staple.question.responder.flatMap { StatusResponder($0) }
    // The configuration bounds how many staples there are, so it is always taken.
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

  /// Seconds until it is asked again.
  private nonisolated static func answer(_ staple: Staple, _ log: ErrorLog) -> Int64 {
    let now = Int64(time(nil))
    // One that came with a reload, fresh enough.
    if let end = staple.validUntil, end - now > latest + soonest { return latest }
    let subject = "\(staple.question.certificate.subject)"
    guard let responder = staple.responder ?? staple.question.responder.flatMap({ StatusResponder($0) }) else {
      log.error("OCSP for \(subject): no http responder is named")
      return latest
    }
    do throws(StatusFault) {
      let (answer, der) = try responder.ask(staple.question, now: now)
      guard answer.status == .good else {
        log.error("OCSP for \(subject): the responder says \(answer.status): not stapled")
        return soonest
      }
      staple.put(der, validUntil: answer.validUntil)
      log.info("OCSP for \(subject): stapled")
      return max(soonest, min(latest, (answer.validUntil - now) / 2))
    } catch {
      log.error("OCSP for \(subject): \(error)")
      return soonest
    }
  }
}
