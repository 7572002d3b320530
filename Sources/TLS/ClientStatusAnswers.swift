package import Crypto
import Synchronization

/// What OCSP responders said of clients (`ssl_ocsp_cache`), each answer until its own end.
///
/// Every answer is signed and speaks of one certificate and its issuer, whatever else the configuration says. So a reload
/// takes the answers over: while a responder is away, what it said before goes on counting. Bounded; the one that ends
/// first makes room.
public final class ClientStatusAnswers: Sendable {
  private let answers = Mutex<[StatusQuestion: StatusAnswer]>([:])
  /// 0: none is kept.
  private let limit: Int

  package init(limit: Int) { self.limit = limit }

  /// nil: nobody knows, or what was known has ended. `now`: seconds since 1970.
  package func known(_ question: StatusQuestion, at now: Int64) -> StatusAnswer? {
    answers.withLock { answers in
      guard let answer = answers[question] else { return nil }
      if answer.validUntil > now { return answer }
      answers.removeValue(forKey: question)
      return nil
    }
  }

  package func keep(_ answer: StatusAnswer, for question: StatusQuestion) {
    guard limit > 0 else { return }
    answers.withLock { answers in
      if answers[question] == nil, answers.count >= limit,
        let first = answers.min(by: { $0.value.validUntil < $1.value.validUntil })
      {
        answers.removeValue(forKey: first.key)
      }
      answers[question] = answer
    }
  }
}
