import Crypto
import Glibc
import Synchronization
package import Transport

/// Asks OCSP responders about clients, outside the event loops.
///
/// The client remembers which responders let requests time out. It belongs to the daemon, so that after a reload a
/// silent responder does not delay clients again.
package final class OCSPClient: Sendable {
  private let pool: BlockingPool
  /// Milliseconds for all responders that a question goes to, one after the other.
  let timeLimit: UInt64
  private let silence = Mutex(ResponderSilence())

  /// `timeLimit`: the milliseconds that an answer may take.
  package init(pool: BlockingPool, timeLimit: UInt64 = StatusResponder.standardTimeLimit) {
    (self.pool, self.timeLimit) = (pool, timeLimit)
  }

  /// Calls `completion` from another thread, or at once when too many requests are pending. `isNamed`: by the certificate in
  /// question, and not by the operator. `time`: for this responder and `others`.
  func ask(
    _ responder: StatusResponder, _ question: OCSPRequest, isNamed: Bool, within time: SharedTime,
    others: Int, _ completion: @escaping @Sendable (Result<StatusAnswer, OCSPError>) -> Void
  ) {
    // The pool groups requests by address, whatever the path: a silent host is silent for all paths.
    let outcome = pool.run(.clientStatus, for: responder.address) { [self] in
      completion(
        Result { () throws(OCSPError) in
          try answer(of: responder, to: question, isNamed: isNamed, within: time.share(of: others + 1))
        })
    }
    if !outcome.isTaken { completion(.failure(OCSPError("too many OCSP requests are pending"))) }
  }

  private func answer(
    of responder: StatusResponder, to question: OCSPRequest, isNamed: Bool, within limit: UInt64?
  ) throws(OCSPError) -> StatusAnswer {
    guard let limit else { throw OCSPError("no time was left to ask \(responder)") }
    let address = responder.address
    let admission = silence.withLock { $0.admit(address, at: Microseconds.now) }
    if admission == .refused { throw OCSPError("\(responder) did not answer in time a moment ago") }
    var ending = ResponderSilence.Ending.heard
    defer { silence.withLock { $0.ended(address, admission, ending, at: Microseconds.now) } }
    do throws(OCSPError) {
      let addresses =
        try isNamed ? responder.addressesForCertificate(elseBy: "name the responder in ssl_ocsp_responder") : nil
      return try responder.ask(question, now: Int64(time(nil)), at: addresses, within: limit).answer
    } catch {
      if error.isTimeout { ending = .timedOut }
      throw error
    }
  }
}
