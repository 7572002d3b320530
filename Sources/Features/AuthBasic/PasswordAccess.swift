import Bytes
import Crypto
import Enrolment
import Forward
import HTTP
import Language
import Observability
import Traffic
import Transport

/// `auth_basic`: a step of the access phase. Reading the file and hashing are slow, so a pool thread does both.
final class PasswordAccess: PhaseStep {
  private let realm: CompiledTemplate
  private let users: LiveAccounts
  private let mayBeMissing: Bool
  /// The limit on wrong passwords; nil for no limit.
  private let guessLimit: FailureWindow.Limit?
  /// The store that counts wrong passwords for all machines; nil: this process alone counts.
  private let guesses: StoreGuesses?

  init(_ settings: AuthBasic, limits: [MaterialReference: FailureWindow.Limit], _ guesses: StoreGuesses?) {
    self.guesses = guesses
    realm = settings.realm.compiled
    users = LiveAccounts(settings.source)
    mayBeMissing = settings.mayBeMissing
    guessLimit = LiveAccounts.guessLimit(of: settings, limits)
  }

  override func run(_ exchange: Exchange) -> StepOutcome {
    guard case .basic(let user, let password) = exchange.head.shownCredentials else {
      exchange.log(.info, "no user/password was provided for basic authentication")
      return challenge(exchange)
    }
    guard let users = users.file(for: exchange) else { return .denied(ErrorResponse(403)) }
    let keys = [FailureWindow.Key.address(PendingWork.party(exchange.clientAddress)), .user(user)]
    let waits = guesses?.begin(exchange, keys, guessLimit) { [self] exchange, decision in
      switch decision {
      case .admitted(let attempt): check(user, password, users, exchange, attempt)
      case .tooMany(let wait): exchange.resume(outcome(of: .tooMany(wait: wait), for: user, exchange))
      case .unanswered:
        exchange.log(.error, StoreGuesses.unanswered)
        exchange.resume(.fail(ErrorResponse(503)))
      }
    }
    if waits != true { check(user, password, users, exchange, nil) }
    return .wait
  }

  private func check(
    _ user: [UInt8], _ password: SecretBytes, _ users: MaterialReference, _ exchange: Exchange,
    _ attempt: SharedAttempt?
  ) {
    let (limit, mayBeMissing) = (guessLimit, mayBeMissing)
    let (address, state) = (PendingWork.party(exchange.clientAddress), exchange.worker.shared.enrolment)
    PendingWork.run(.passwords, for: exchange) {
      PasswordVerdict(on: user, password, by: users, mayBeMissing: mayBeMissing, limit, from: address, state)
    } _: { [self] exchange, verdict in
      if case .refused = verdict {} else { attempt?.forgive() }
      exchange.resume(outcome(of: verdict, for: user, exchange))
    }
  }

  override var words: String { AuthBasic.realmLine.name }

  override func rehearse(_ exchange: Exchange, _ trace: ExplainTrace) -> StepOutcome {
    guard case .basic(let user, _) = exchange.head.shownCredentials else { return run(exchange) }
    trace.asks("\(users.words) for the password of \"\(LogEscape.text(user))\"; taken as right")
    return .granted
  }

  private func outcome(of verdict: PasswordVerdict, for user: [UInt8], _ exchange: Exchange) -> StepOutcome {
    switch verdict {
    case .admitted: return .granted
    case .refused:
      exchange.log(.error, "user \"\(LogEscape.text(user))\": wrong password, or no such user")
      return challenge(exchange)
    case .tooMany(let wait):
      exchange.log(.error, "user \"\(LogEscape.text(user))\": too many wrong passwords of this user or address")
      exchange.refuse(429, retryAfter: wait)
      return .responded
    case .missing:
      exchange.log(.error, "the file of \"auth_basic_user_file\" for this request doesn't exist")
      return .denied(ErrorResponse(403))
    case .broken(let reason):
      exchange.tellOfRepeated(.crit, reason)
      return .fail(ErrorResponse(500))
    }
  }

  private func challenge(_ exchange: Exchange) -> StepOutcome {
    Self.setChallenge(realm, of: exchange)
    return .denied(ErrorResponse(401))
  }

  /// Sets the `WWW-Authenticate` field of a 401 (RFC 7617 §2).
  static func setChallenge(_ realm: CompiledTemplate, of exchange: Exchange) {
    var value = ByteBuffer()
    value.append("Basic realm=\"")
    for byte in realm.bytes(exchange) {
      if byte == 0x22 || byte == 0x5C { value.append(0x5C) }
      value.append(byte)
    }
    value.append("\"")
    exchange.setOwnField("WWW-Authenticate", value.readable)
  }
}
