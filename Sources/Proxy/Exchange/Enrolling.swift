import Bytes
import Enrolment
import HTTP
import Observability
import Transport

/// `enrolment`: a certificate for who shows a password, or the token of one.
extension Exchange {
  func enrol(_ desk: EnrolmentSettings) {
    guard let connection else { return }
    guard head.method == .post, redirection.keepsBody else {
      Array("POST".utf8).withUnsafeBytes { setAnswerField("Allow", $0) }
      return fail(Failure(405))
    }
    guard shownCredentials != nil else {
      log(.info, "no user/password was provided for enrolment")
      return challenge()
    }
    let kept = RequestBody(allowance: EnrolmentRequest.sizeLimit)
    guard head.framing != .none, !connection.isBodyRead else { return enrol(desk, with: kept) }
    body = .collecting(kept)
    continueClient()
    connection.pump()
  }

  /// The body is whole.
  func enrol(_ desk: EnrolmentSettings, with kept: RequestBody) {
    guard let credentials = shownCredentials, !kept.isInFile else { return fail(Failure(kept.isInFile ? 413 : 401)) }
    let request = SecretBytes(copying: kept.memory.readable)
    let box = LoopBox(self)
    let (serial, loop, address, state) = (serial, worker.loop, Self.party(facts.peer), worker.shared.enrolment)
    awaitTurn(.enrolments, from: address) {
      let outcome = request.withUnsafeBytes {
        EnrolmentDesk(desk, state).answer(credentials, from: address, body: $0)
      }
      loop.post { box.value.enrolled(outcome, serial) }
    }
  }

  private func enrolled(_ outcome: EnrolmentOutcome, _ serial: UInt64) {
    guard serial == self.serial else { return }
    waitingPassword = nil
    switch outcome {
    case .enrolled(let json, let words):
      log(.notice, words)
      settleOwnAnswer(status: 201)
      Array("no-store".utf8).withUnsafeBytes { setAnswerField("Cache-Control", $0) }
      json.withUnsafeBytes { answer(status: 201, type: "application/json", location: nil, body: $0) }
    case .unauthorized(let reason):
      log(.error, "\(reason): \(credentialsShown)")
      challenge()
    case .refused(let reason):
      log(.error, "no certificate for \(credentialsShown): \(reason)")
      fail(Failure(403))
    case .tooManyDevices(let limit, let reason):
      log(.error, reason)
      let json = Array("{\"error\": \"too many devices\", \"limit\": \(limit)}\n".utf8)
      settleOwnAnswer(status: 403)
      json.withUnsafeBytes { answer(status: 403, type: "application/json", location: nil, body: $0) }
    case .malformed(let reason):
      log(.info, reason)
      fail(Failure(400))
    case .conflict(let reason):
      log(.info, reason)
      fail(Failure(409))
    case .tooMany(let wait, let reason):
      log(.error, "\(reason): \(credentialsShown)")
      refuse(429, retryAfter: wait)
    case .broken(let reason):
      log(.crit, reason)
      fail(Failure(500))
    }
  }

  private var credentialsShown: String {
    if case .basic(let user, _) = shownCredentials { "user \"\(Self.printable(user))\"" } else { "a token" }
  }
}
