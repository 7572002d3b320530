import Enrolment
import Forward
import HTTP
import Observability
import Traffic
import Transport

/// What `enrolment` and `enrolment est` have in common: who counts wrong passwords, which threads work, and what a client
/// hears that gets no certificate. No `auth_basic` step comes before it: enrolment checks the credentials itself, because it
/// also accepts tokens and counts wrong passwords.
class EnrolmentContent: LiveContent {
  final let settings: EnrolmentSettings
  final let work: BlockingWork
  private let realm: CompiledTemplate
  /// The store that counts wrong passwords for all machines; nil: this process alone counts.
  private let guesses: StoreGuesses?

  init(_ settings: EnrolmentSettings, realm: CompiledTemplate, _ guesses: StoreGuesses?) {
    self.guesses = guesses
    self.settings = settings
    work = settings.hasDatabase ? .registers : .enrolments
    self.realm = realm
  }

  final func challenge(_ exchange: Exchange) {
    PasswordAccess.setChallenge(realm, of: exchange)
    exchange.fail(ErrorResponse(401))
  }

  /// Calls `goOn` with the attempt, if one is counted elsewhere, unless the store says that there were too many.
  final func count(
    _ credentials: ShownCredentials, of exchange: Exchange, _ goOn: @escaping (Exchange, SharedAttempt?) -> Void
  ) {
    let waits = guesses?.begin(exchange, credentials.guessKeys(of: exchange), settings.failureLimit) {
      [self] exchange, decision in
      switch decision {
      case .admitted(let attempt): goOn(exchange, attempt)
      case .tooMany(let wait):
        answer(
          .tooMany(wait: wait, "too many wrong passwords of this user or address"), exchange,
          EnrolmentWords.shown(exchange))
      case .unanswered:
        exchange.log(.error, StoreGuesses.unanswered)
        exchange.fail(ErrorResponse(503))
      }
    }
    if waits != true { goOn(exchange, nil) }
  }

  /// Responds to a client that gets no certificate; to one that gets it, its handler responds. `shown`: who it says it is.
  final func answer(_ outcome: EnrolmentOutcome, _ exchange: Exchange, _ shown: String) {
    switch outcome {
    case .enrolled: break
    case .unauthorized(let reason):
      exchange.log(.error, "\(reason): \(EnrolmentWords.shown(exchange))")
      challenge(exchange)
    case .refused(let reason):
      exchange.log(.error, "no certificate for \(shown): \(reason)")
      exchange.fail(ErrorResponse(403))
    case .tooManyDevices(_, let reason):
      exchange.log(.error, reason)
      exchange.fail(ErrorResponse(403))
    case .malformed(let reason):
      exchange.log(.info, reason)
      exchange.fail(ErrorResponse(400))
    case .conflict(let reason):
      exchange.log(.info, reason)
      exchange.fail(ErrorResponse(409))
    case .early(let wait, let reason):
      exchange.log(.info, reason)
      exchange.refuse(409, retryAfter: wait)
    case .tooMany(let wait, let reason):
      exchange.log(.error, "\(reason): \(shown)")
      exchange.refuse(429, retryAfter: wait)
    case .unavailable(let reason):
      exchange.log(.error, reason)
      exchange.refuse(503, retryAfter: EnrolmentWords.retryAfter)
    case .broken(let reason):
      exchange.log(.crit, reason)
      exchange.fail(ErrorResponse(500))
    }
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
