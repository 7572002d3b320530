import Bytes
import Enrolment
import Forward
import HTTP
import Observability
import Traffic
import Transport

/// `enrolment`: issues a certificate for a request with a password or a token.
final class PasswordEnrolment: EnrolmentContent {
  override func explained(_ exchange: Exchange) -> String? {
    "enrolment: asks for a password, and may issue a certificate"
  }

  override func handler(for worker: Worker) -> ContentHandler? { EnrolmentHandler(self) }
}

private final class EnrolmentHandler: ContentHandler {
  private let content: PasswordEnrolment
  // Not retained: the exchange owns its handler.
  private unowned(unsafe) var exchange: Exchange?

  init(_ content: PasswordEnrolment) { self.content = content }

  override func start(_ exchange: Exchange) {
    self.exchange = exchange
    guard let stream = exchange.stream else { return }
    guard exchange.head.method == .post, exchange.redirection.keepsBody else {
      Array("POST".utf8).withUnsafeBytes { exchange.setOwnField("Allow", $0) }
      return exchange.fail(ErrorResponse(405))
    }
    guard exchange.head.shownCredentials != nil else {
      exchange.log(.info, "no user/password was provided for enrolment")
      return content.challenge(exchange)
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
    content.count(credentials, of: exchange) { [self] exchange, attempt in
      issue(credentials, request, exchange, attempt)
    }
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
    case .tooManyDevices(let limit, let reason):
      exchange.log(.error, reason)
      let json = Array("{\"error\": \"too many devices\", \"limit\": \(limit)}\n".utf8)
      json.withUnsafeBytes { exchange.answer(status: 403, type: "application/json", body: $0) }
    default: content.answer(outcome, exchange, EnrolmentWords.shown(exchange))
    }
  }
}
