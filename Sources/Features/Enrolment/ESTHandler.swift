import Bytes
import Crypto
import Enrolment
import Forward
import HTTP
import Observability
import TLS
import Traffic
import Transport

/// `enrolment est`: /cacerts, /simpleenroll and /simplereenroll of RFC 7030, chosen by the last part of the path.
final class ESTContent: EnrolmentContent {
  override func handler(for worker: Worker) -> ContentHandler? { ESTHandler(self) }
}

private final class ESTHandler: ContentHandler {
  private enum Operation {
    case authorities
    case enroll(ShownCredentials)
    /// The client's certificate, whose chain verified.
    case reenroll(Certificate)
  }

  private let content: ESTContent
  private var operation: Operation?
  // Not retained: the exchange owns its handler.
  private unowned(unsafe) var exchange: Exchange?

  init(_ content: ESTContent) { self.content = content }

  override func start(_ exchange: Exchange) {
    self.exchange = exchange
    let path = exchange.target.uri.readable
    let name = path.lastIndex(of: UInt8(ascii: "/")).map { path[(path.index(after: $0))...] } ?? path[...]
    switch String(decoding: name, as: UTF8.self) {
    case "cacerts":
      guard isAllowed([.get, .head], "GET, HEAD", exchange) else { return }
      operation = .authorities
      run(SecretBytes([]), exchange)
    case "simpleenroll":
      guard isAllowed([.post], "POST", exchange) else { return }
      guard let credentials = exchange.head.shownCredentials else {
        exchange.log(.info, "no user/password was provided for enrolment")
        return content.challenge(exchange)
      }
      collect(.enroll(credentials), exchange)
    case "simplereenroll":
      guard isAllowed([.post], "POST", exchange) else { return }
      guard let leaf = exchange.facts.verifiedChain?.leaf else {
        exchange.log(.info, "no verified client certificate was shown for a renewal")
        return exchange.fail(ErrorResponse(403))
      }
      collect(.reenroll(leaf), exchange)
    default: exchange.fail(ErrorResponse(404))
    }
  }

  private func isAllowed(_ methods: [Method], _ allow: String, _ exchange: Exchange) -> Bool {
    if methods.contains(exchange.head.method), exchange.head.method != .post || exchange.redirection.keepsBody {
      return true
    }
    Array(allow.utf8).withUnsafeBytes { exchange.setOwnField("Allow", $0) }
    exchange.fail(ErrorResponse(405))
    return false
  }

  // MARK: The request's body

  private func collect(_ operation: Operation, _ exchange: Exchange) {
    guard let stream = exchange.stream else { return }
    guard isRequestType(exchange.head) else {
      exchange.log(.info, "the body of an EST request is not application/pkcs10")
      return exchange.fail(ErrorResponse(415))
    }
    self.operation = operation
    // `message_signature verify` has collected it.
    if case .collected(let kept) = exchange.body.state { return take(kept, exchange) }
    let kept = RequestBody(allowance: ESTRequest.sizeLimit, pool: exchange.worker.shared.pool)
    guard exchange.head.framing != .none, !stream.isBodyRead else { return take(kept, exchange) }
    exchange.collectBody(in: kept)
  }

  private func isRequestType(_ head: RequestHead) -> Bool {
    guard let field = head.first(.contentType) else { return false }
    let value = head.bytes.readable[field.value]
    let type = value.prefix { $0 != UInt8(ascii: ";") && $0 != 0x20 && $0 != 0x09 }
    return type.map { ASCII.lower($0) } == Array("application/pkcs10".utf8)
  }

  override func requestBodyDidEnd(_ trailers: Trailers?) {
    guard let exchange, case .collected(let kept) = exchange.body.state else { return }
    take(kept, exchange)
  }

  private func take(_ kept: RequestBody, _ exchange: Exchange) {
    guard !kept.isInFile else { return exchange.fail(ErrorResponse(413)) }
    run(SecretBytes(copying: kept.memory.readable), exchange)
  }

  // MARK: The answer

  private func run(_ body: SecretBytes, _ exchange: Exchange) {
    guard let operation else { return exchange.fail(ErrorResponse(500)) }
    guard case .enroll(let credentials) = operation else { return run(operation, body, exchange, nil) }
    content.count(credentials, of: exchange) { [self] exchange, attempt in run(operation, body, exchange, attempt) }
  }

  private func run(
    _ operation: Operation, _ body: SecretBytes, _ exchange: Exchange, _ attempt: SharedAttempt?
  ) {
    let settings = content.settings
    let (address, state) = (PendingWork.party(exchange.clientAddress), exchange.worker.shared.enrolment)
    PendingWork.run(content.work, for: exchange) {
      let service = EnrolmentService(settings, state)
      return body.withUnsafeBytes { body in
        switch operation {
        case .authorities: service.authorities()
        case .enroll(let credentials): service.enroll(credentials, from: address, body: body)
        case .reenroll(let leaf): service.reenroll(leaf, body: body)
        }
      }
    } _: { [self] exchange, outcome in
      outcome.settle(attempt)
      answer(outcome, exchange)
    }
  }

  private func answer(_ outcome: EnrolmentOutcome, _ exchange: Exchange) {
    switch outcome {
    case .enrolled(let bag, let words):
      var isIssued = true
      if case .authorities? = operation { isIssued = false }
      exchange.log(isIssued ? .notice : .debug, words)
      let fields = [("Content-Transfer-Encoding", "base64")] + (isIssued ? [("Cache-Control", "no-store")] : [])
      exchange.setOwnFields(FieldBlock(fields.map { (Array($0.0.utf8), Array($0.1.utf8)) }))
      bag.withUnsafeBytes {
        exchange.answer(
          status: 200,
          type: isIssued ? "application/pkcs7-mime; smime-type=certs-only" : "application/pkcs7-mime", body: $0)
      }
    default: content.answer(outcome, exchange, shown(exchange))
    }
  }

  private func shown(_ exchange: Exchange) -> String {
    if case .reenroll(let leaf)? = operation { return "\(leaf.subject)" }
    return EnrolmentWords.shown(exchange)
  }
}
