import Bytes
import Enrolment
import Forward
import HTTP
import Observability
import Traffic
import Transport

/// `enrolment`: issues a certificate for a request with a password or a token. No `auth_basic` step comes before it:
/// enrolment checks the credentials itself, because it also accepts tokens and counts wrong passwords.
final class EnrolmentContent: LiveContent {
  fileprivate let settings: EnrolmentSettings
  fileprivate let work: BlockingWork
  fileprivate let realm: CompiledTemplate
  /// The store that counts wrong passwords for all machines; nil: this process alone counts.
  fileprivate let guesses: StoreGuesses?

  init(_ settings: EnrolmentSettings, realm: CompiledTemplate, _ guesses: StoreGuesses?) {
    self.guesses = guesses
    self.settings = settings
    work = settings.hasDatabase ? .registers : .enrolments
    self.realm = realm
  }

  override func explained(_ exchange: Exchange) -> String? {
    "enrolment: asks for a password, and may issue a certificate"
  }

  override func handler(for worker: Worker) -> ContentHandler? { EnrolmentHandler(self) }
}

private final class EnrolmentHandler: ContentHandler {
  private let content: EnrolmentContent
  // Not retained: the exchange owns its handler.
  private unowned(unsafe) var exchange: Exchange?

  init(_ content: EnrolmentContent) { self.content = content }

  override func start(_ exchange: Exchange) {
    self.exchange = exchange
    guard let stream = exchange.stream else { return }
    guard exchange.head.method == .post, exchange.redirection.keepsBody else {
      Array("POST".utf8).withUnsafeBytes { exchange.setOwnField("Allow", $0) }
      return exchange.fail(ErrorResponse(405))
    }
    guard exchange.head.shownCredentials != nil else {
      exchange.log(.info, "no user/password was provided for enrolment")
      return challenge(exchange)
    }
    // `message_signature verify` has collected it.
    if case .collected(let kept) = exchange.body.state { return enrol(exchange, kept) }
    let kept = RequestBody(allowance: EnrolmentRequest.sizeLimit, pool: exchange.worker.shared.pool)
    guard exchange.head.framing != .none, !stream.isBodyRead else { return enrol(exchange, kept) }
    exchange.collectBody(in: kept)
  }

  override func requestBodyDidEnd(_ trailers: Trailers?) {
    guard let exchange, case .collected(let kept) = exchange.body.state else { return }
    enrol(exchange, kept)
  }

  private func enrol(_ exchange: Exchange, _ kept: RequestBody) {
    guard let credentials = exchange.head.shownCredentials, !kept.isInFile else {
      return exchange.fail(ErrorResponse(kept.isInFile ? 413 : 401))
    }
    let request = SecretBytes(copying: kept.memory.readable)
    let waits = content.guesses?.begin(exchange, credentials.guessKeys(of: exchange), content.settings.failureLimit) {
      [self] exchange, decision in
      switch decision {
      case .admitted(let attempt): issue(credentials, request, exchange, attempt)
      case .tooMany(let wait):
        answer(.tooMany(wait: wait, "too many wrong passwords of this user or address"), exchange)
      case .unanswered:
        exchange.log(.error, StoreGuesses.unanswered)
        exchange.fail(ErrorResponse(503))
      }
    }
    if waits != true { issue(credentials, request, exchange, nil) }
  }

  private func issue(
    _ credentials: ShownCredentials, _ request: SecretBytes, _ exchange: Exchange, _ attempt: SharedAttempt?
  ) {
    let settings = content.settings
    let (address, state) = (PendingWork.party(exchange.clientAddress), exchange.worker.shared.enrolment)
    PendingWork.run(content.work, for: exchange) {
      request.withUnsafeBytes { EnrolmentService(settings, state).answer(credentials, from: address, body: $0) }
    } _: { [self] exchange, outcome in
      outcome.settle(attempt)
      answer(outcome, exchange)
    }
  }

  private func answer(_ outcome: EnrolmentOutcome, _ exchange: Exchange) {
    switch outcome {
    case .enrolled(let json, let words):
      exchange.log(.notice, words)
      Array("no-store".utf8).withUnsafeBytes { exchange.setOwnField("Cache-Control", $0) }
      json.withUnsafeBytes { exchange.answer(status: 201, type: "application/json", body: $0) }
    case .unauthorized(let reason):
      exchange.log(.error, "\(reason): \(EnrolmentWords.shown(exchange))")
      challenge(exchange)
    case .refused(let reason):
      exchange.log(.error, "no certificate for \(EnrolmentWords.shown(exchange)): \(reason)")
      exchange.fail(ErrorResponse(403))
    case .tooManyDevices(let limit, let reason):
      exchange.log(.error, reason)
      let json = Array("{\"error\": \"too many devices\", \"limit\": \(limit)}\n".utf8)
      json.withUnsafeBytes { exchange.answer(status: 403, type: "application/json", body: $0) }
    case .malformed(let reason):
      exchange.log(.info, reason)
      exchange.fail(ErrorResponse(400))
    case .conflict(let reason), .early(_, let reason):
      exchange.log(.info, reason)
      exchange.fail(ErrorResponse(409))
    case .tooMany(let wait, let reason):
      exchange.log(.error, "\(reason): \(EnrolmentWords.shown(exchange))")
      exchange.refuse(429, retryAfter: wait)
    case .unavailable(let reason):
      exchange.log(.error, reason)
      exchange.refuse(503, retryAfter: EnrolmentWords.retryAfter)
    case .broken(let reason):
      exchange.log(.crit, reason)
      exchange.fail(ErrorResponse(500))
    }
  }

  private func challenge(_ exchange: Exchange) {
    PasswordAccess.setChallenge(content.realm, of: exchange)
    exchange.fail(ErrorResponse(401))
  }
}

extension ShownCredentials {
  /// Whose wrong passwords count together.
  func guessKeys(of exchange: Exchange) -> [FailureWindow.Key] {
    let address = FailureWindow.Key.address(PendingWork.party(exchange.clientAddress))
    if case .basic(let user, _) = self { return [address, .user(user)] }
    return [address]
  }
}

extension EnrolmentOutcome {
  /// Forgives an attempt whose credentials were right, or were not looked at.
  func settle(_ attempt: SharedAttempt?) {
    if case .unauthorized = self { return }
    attempt?.forgive()
  }
}

/// Who asks for a certificate, in words for the log.
enum EnrolmentWords {
  /// Seconds, when a database can't be reached.
  static let retryAfter: Int64 = 5

  static func shown(_ exchange: Exchange) -> String {
    if case .basic(let user, _) = exchange.head.shownCredentials {
      "user \"\(LogEscape.text(user))\""
    } else {
      "a token"
    }
  }
}
