package import Crypto
import Synchronization

/// Caches what OCSP responders answered about clients (`ssl_ocsp_cache`), each answer until it expires.
///
/// Each answer is signed and concerns one certificate and its issuer, whatever the configuration says. A reload
/// therefore keeps the cache: while a responder is unreachable, its earlier answers still count. The cache is bounded;
/// the entry that expires first is evicted first.
public final class ClientStatusAnswers: Sendable {
  private let answers = Mutex<[OCSPRequest: StatusAnswer]>([:])
  /// 0: the cache keeps no answers.
  private let limit: Int

  package init(limit: Int) { self.limit = limit }

  /// Returns nil when there is no answer or the answer has expired. `now`: seconds since 1970.
  package func known(_ question: OCSPRequest, at now: Int64) -> StatusAnswer? {
    answers.withLock { answers in
      guard let answer = answers[question] else { return nil }
      if answer.validUntil > now { return answer }
      answers.removeValue(forKey: question)
      return nil
    }
  }

  package func keep(_ answer: StatusAnswer, for question: OCSPRequest) {
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
