import COpenSSL
public import Crypto
import Glibc
import Synchronization
import Transport

/// `ssl_ocsp` and what goes with it.
public struct ClientStatusSettings: Sendable, Hashable {
  public enum Extent: String, Sendable, Hashable {
    case off
    /// Every certificate of the chain but the anchor.
    case on
    case leaf
  }

  public var extent = Extent.off
  /// `ssl_ocsp_responder`: asked in place of the one that a certificate names.
  public var responder: StatusResponder?
  /// `ssl_ocsp_cache`: answers that are kept; 0 asks each time.
  public var cacheEntries = 0

  public init() {}
}

/// How the responders have judged a client's chain.
enum StatusVerdict: Sendable, Equatable {
  case good
  /// X509_V_ERR_…; the reason for the log.
  case refused(Int32, String)
}

/// Asks OCSP responders about clients, beside the loops, and keeps what they said.
///
/// Why it may never say good for want of an answer: a responder that can be cut off would let in whom it has revoked.
final class ClientStatusCheck: Sendable {
  private typealias Waiter = @Sendable (Result<StatusAnswer, StatusFault>) -> Void

  /// By the responder's address, whatever its paths: a host that is silent is so for all of them.
  private static let work = BlockingParties<String>("status", parties: 32, lanes: 4, limit: 1024)
  private static let silence = Mutex(ResponderSilence())

  private let settings: ClientStatusSettings
  let answers: ClientStatusAnswers
  /// Who waits for an answer that is under way.
  private let asked = Mutex<[StatusQuestion: [Waiter]]>([:])

  /// nil when nobody is asked. `answers`: those of the generation before; nil for none.
  init?(_ settings: ClientStatusSettings, _ answers: ClientStatusAnswers? = nil) {
    if settings.extent == .off { return nil }
    self.settings = settings
    self.answers = answers ?? ClientStatusAnswers(limit: settings.cacheEntries)
  }

  private func questions(_ chain: VerifiedChain) -> [StatusQuestion] {
    let certificates = [chain.leaf] + chain.others
    let pairs = zip(certificates, certificates.dropFirst()).map { StatusQuestion(of: $0, issuedBy: $1) }
    return settings.extent == .leaf ? Array(pairs.prefix(1)) : pairs
  }

  /// The verdict, when all that is asked is known; else nil, and `completion` hears it later, from another thread.
  func judge(
    _ chain: VerifiedChain, _ completion: @escaping @Sendable (StatusVerdict) -> Void
  ) -> StatusVerdict? {
    let questions = questions(chain)
    // A leaf that is an anchor itself: there is nobody who could speak of it.
    guard !questions.isEmpty else { return .good }
    return judge(questions[...], completion)
  }

  private func judge(
    _ questions: ArraySlice<StatusQuestion>, _ completion: @escaping @Sendable (StatusVerdict) -> Void
  ) -> StatusVerdict? {
    var rest = questions
    while let question = rest.popFirst() {
      guard let answer = answers.known(question, at: Int64(time(nil))) else {
        let later = rest
        ask(question) { [self] outcome in
          switch outcome {
          case .failure(let fault): completion(Self.verdict(fault))
          case .success(let answer):
            if let refusal = Self.refusal(answer, question) { return completion(refusal) }
            if let verdict = judge(later, completion) { completion(verdict) }
          }
        }
        return nil
      }
      if let refusal = Self.refusal(answer, question) { return refusal }
    }
    return .good
  }

  private static func refusal(_ answer: StatusAnswer, _ question: StatusQuestion) -> StatusVerdict? {
    switch answer.status {
    case .good: nil
    case .revoked: .refused(X509_V_ERR_CERT_REVOKED, "certificate revoked")
    case .unknown:
      .refused(
        X509_V_ERR_OCSP_CERT_UNKNOWN, "the OCSP responder does not know certificate \(question.certificate.serial)")
    }
  }

  private static func verdict(_ fault: StatusFault) -> StatusVerdict {
    .refused(X509_V_ERR_OCSP_VERIFY_FAILED, "certificate status request failed: \(fault)")
  }

  /// Asks once for all who want to know the same at the same time.
  private func ask(_ question: StatusQuestion, _ waiter: @escaping Waiter) {
    guard let responder = settings.responder ?? question.responder.flatMap({ StatusResponder($0) }) else {
      return waiter(.failure(StatusFault("no http OCSP responder in the certificate")))
    }
    let isFirst = asked.withLock { asked in
      defer { asked[question, default: []].append(waiter) }
      return asked[question] == nil
    }
    guard isFirst else { return }
    let isTaken = Self.work.run(for: responder.address) { [self] in
      let now = Int64(time(nil))
      answer(question, Result { () throws(StatusFault) in try Self.ask(responder, question, now) })
    }
    if !isTaken { answer(question, .failure(StatusFault("too many questions are under way"))) }
  }

  private static func ask(
    _ responder: StatusResponder, _ question: StatusQuestion, _ now: Int64
  ) throws(StatusFault) -> StatusAnswer {
    let address = responder.address
    let admission = silence.withLock { $0.admit(address, at: Microseconds.now) }
    if admission == .refused { throw StatusFault("\(responder) did not answer in time a moment ago") }
    var ending = ResponderSilence.Ending.heard
    defer { silence.withLock { $0.ended(address, admission, ending, at: Microseconds.now) } }
    do throws(StatusFault) {
      return try responder.ask(question, now: now).answer
    } catch {
      if error.isTimeout { ending = .timedOut }
      throw error
    }
  }

  private func answer(_ question: StatusQuestion, _ outcome: Result<StatusAnswer, StatusFault>) {
    if case .success(let answer) = outcome { answers.keep(answer, for: question) }
    let waiters = asked.withLock { $0.removeValue(forKey: question) ?? [] }
    for waiter in waiters { waiter(outcome) }
  }
}
