import Crypto
import Glibc
import Synchronization
package import Transport

/// Asks OCSP responders about clients, beside the loops.
///
/// It knows which responders let requests time out, so it belongs to the daemon: a reload does not make a silent
/// responder hold up clients again.
package final class OCSPClient: Sendable {
  private let pool: BlockingPool
  private let silence = Mutex(ResponderSilence())

  package init(pool: BlockingPool) { self.pool = pool }

  /// Calls `completion` from another thread, or at once when too many requests are under way.
  func ask(
    _ responder: StatusResponder, _ question: StatusQuestion,
    _ completion: @escaping @Sendable (Result<StatusAnswer, StatusFault>) -> Void
  ) {
    // By the address, whatever the path: a host that is silent is so for all of its paths.
    let outcome = pool.run(.clientStatus, for: responder.address) { [self] in
      completion(Result { () throws(StatusFault) in try answer(of: responder, to: question) })
    }
    if !outcome.isTaken { completion(.failure(StatusFault("too many questions are under way"))) }
  }

  private func answer(of responder: StatusResponder, to question: StatusQuestion) throws(StatusFault) -> StatusAnswer {
    let address = responder.address
    let admission = silence.withLock { $0.admit(address, at: Microseconds.now) }
    if admission == .refused { throw StatusFault("\(responder) did not answer in time a moment ago") }
    var ending = ResponderSilence.Ending.heard
    defer { silence.withLock { $0.ended(address, admission, ending, at: Microseconds.now) } }
    do throws(StatusFault) {
      return try responder.ask(question, now: Int64(time(nil))).answer
    } catch {
      if error.isTimeout { ending = .timedOut }
      throw error
    }
  }
}
