import COpenSSL
public import Crypto
import Glibc
import Synchronization

/// The settings of `ssl_ocsp` and its companion directives.
public struct ClientStatusSettings: Sendable, Hashable {
  public enum Extent: String, Sendable, Hashable {
    case off
    /// Every certificate of the chain but the anchor.
    case on
    case leaf
  }

  public var extent = Extent.off
  /// `ssl_ocsp_responder`: replaces the responder that a certificate names.
  public var responder: StatusResponder?
  /// `ssl_ocsp_cache`: the largest number of cached answers. 0: every handshake asks the responder.
  public var cacheEntries = 0

  public init() {}
}

/// The result of checking a client's chain with the OCSP responders.
enum StatusVerdict: Sendable, Equatable {
  /// `until`: when the first of the answers expires, in seconds since 1970; `.max` if no responder was asked.
  case good(until: Int64)
  /// X509_V_ERR_…, and the reason for the log.
  case refused(Int32, String)
}

/// Checks client certificates with OCSP responders and caches the answers.
///
/// A missing answer never counts as good. Otherwise an attacker who can block the responder could use a revoked
/// certificate.
final class ClientStatusCheck: Sendable {
  private typealias Waiter = @Sendable (Result<StatusAnswer, OCSPError>) -> Void

  private let settings: ClientStatusSettings
  let answers: ClientStatusAnswers
  private let client: OCSPClient
  /// The callers that wait for a pending answer.
  private let asked = Mutex<[OCSPRequest: [Waiter]]>([:])

  /// Returns nil when `ssl_ocsp` is off. `answers`: the cache of the previous generation; nil starts an empty one.
  init?(_ settings: ClientStatusSettings, _ client: OCSPClient, _ answers: ClientStatusAnswers? = nil) {
    if settings.extent == .off { return nil }
    self.client = client
    self.settings = settings
    self.answers = answers ?? ClientStatusAnswers(limit: settings.cacheEntries)
  }

  private func questions(_ chain: VerifiedChain) -> [OCSPRequest] {
    let certificates = [chain.leaf] + chain.others
    let pairs = zip(certificates, certificates.dropFirst()).map { OCSPRequest(of: $0, issuedBy: $1) }
    return settings.extent == .leaf ? Array(pairs.prefix(1)) : pairs
  }

  /// Returns the verdict when the cache has every answer that it needs. Otherwise returns nil and calls `completion`
  /// later, from another thread.
  func judge(
    _ chain: VerifiedChain, _ completion: @escaping @Sendable (StatusVerdict) -> Void
  ) -> StatusVerdict? {
    let questions = questions(chain)
    // The leaf is itself a trust anchor, so it has no issuer whose responder could answer.
    guard !questions.isEmpty else { return .good(until: .max) }
    return judge(questions[...], until: .max, completion)
  }

  /// Returns the verdict by the answers that the cache has, and asks nobody; nil if it lacks one.
  func known(_ chain: VerifiedChain) -> StatusVerdict? {
    var end = Int64.max
    for question in questions(chain) {
      guard let answer = answers.known(question, at: Int64(time(nil))) else { return nil }
      if let refusal = Self.refusal(answer, question) { return refusal }
      end = min(end, answer.validUntil)
    }
    return .good(until: end)
  }

  private func judge(
    _ questions: ArraySlice<OCSPRequest>, until known: Int64,
    _ completion: @escaping @Sendable (StatusVerdict) -> Void
  ) -> StatusVerdict? {
    var rest = questions, end = known
    while let question = rest.popFirst() {
      guard let answer = answers.known(question, at: Int64(time(nil))) else {
        let later = rest, end = end
        ask(question) { [self] outcome in
          switch outcome {
          case .failure(let fault): completion(Self.verdict(fault))
          case .success(let answer):
            if let refusal = Self.refusal(answer, question) { return completion(refusal) }
            if let verdict = judge(later, until: min(end, answer.validUntil), completion) { completion(verdict) }
          }
        }
        return nil
      }
      if let refusal = Self.refusal(answer, question) { return refusal }
      end = min(end, answer.validUntil)
    }
    return .good(until: end)
  }

  private static func refusal(_ answer: StatusAnswer, _ question: OCSPRequest) -> StatusVerdict? {
    switch answer.status {
    case .good: nil
    case .revoked: .refused(X509_V_ERR_CERT_REVOKED, "certificate revoked")
    case .unknown:
      .refused(
        X509_V_ERR_OCSP_CERT_UNKNOWN, "the OCSP responder does not know certificate \(question.certificate.serial)")
    }
  }

  private static func verdict(_ fault: OCSPError) -> StatusVerdict {
    .refused(X509_V_ERR_OCSP_VERIFY_FAILED, "certificate status request failed: \(fault)")
  }

  /// Sends one request for all callers that need the same answer at the same time.
  private func ask(_ question: OCSPRequest, _ waiter: @escaping Waiter) {
    let responders = settings.responder.map { [$0] } ?? question.responders
    guard !responders.isEmpty else {
      return waiter(.failure(OCSPError("no http OCSP responder in the certificate")))
    }
    let isFirst = asked.withLock { asked in
      defer { asked[question, default: []].append(waiter) }
      return asked[question] == nil
    }
    guard isFirst else { return }
    ask(responders[...], question, within: SharedTime(milliseconds: client.timeLimit))
  }

  /// Asks the responders one after the other, until one has an answer or the time is over.
  private func ask(_ responders: ArraySlice<StatusResponder>, _ question: OCSPRequest, within time: SharedTime) {
    var rest = responders
    guard let responder = rest.popFirst() else { return }
    let others = rest
    client.ask(
      responder, question, isNamed: settings.responder == nil, within: time, others: others.count
    ) { [self] outcome in
      if case .failure = outcome, !others.isEmpty, time.share(of: others.count) != nil {
        return ask(others, question, within: time)
      }
      answer(question, outcome)
    }
  }

  private func answer(_ question: OCSPRequest, _ outcome: Result<StatusAnswer, OCSPError>) {
    if case .success(let answer) = outcome { answers.keep(answer, for: question) }
    let waiters = asked.withLock { $0.removeValue(forKey: question) ?? [] }
    for waiter in waiters { waiter(outcome) }
  }
}
