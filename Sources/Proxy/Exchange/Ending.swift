import HTTP
import Observability
import Transport
import Upstream

/// The ways in which an exchange ends. Each writes the access record, once, and only then lets go of the upstream, of
/// which the record tells.
extension Exchange {
  // MARK: The client's side

  func clientDidDrain() {
    guard let connection else { return }
    connection.stream.setDeadline(in: wantsBody ? bodyTimeout : nil)
    upstream?.resume()
  }

  func clientDidLeave() {
    guard connection != nil else { return }
    if let pass, pass.settings.ignoresClientAbort, upstream != nil, connection?.isBodyRead == true {
      isClientGone = true
      return
    }
    if case .waiting = answer {
      status = 499
      log(.info, "client prematurely closed connection")
    }
    writeAccessRecord()
    dropUpstream()
    connection?.abort(.orderly)
  }

  /// Nothing of the body came, or nothing of the answer was taken, for too long.
  func clientDeadlinePassed() {
    if case .waiting = answer {
      log(.info, "client timed out (110: Connection timed out) while sending request body")
      return failDuringBody(.timedOut)
    }
    log(.info, "client timed out (110: Connection timed out) while sending to client")
    cutAnswer()
  }

  /// The worker ends.
  func connectionWasCut() {
    if connection != nil { writeAccessRecord() }
    dropUpstream()
    worker.giveBack(self)
  }

  func dropUpstream() {
    let attempt = upstream
    upstream = nil
    attempt?.abandon()
  }

  // MARK: Ends

  /// The answer can't be completed: what the client has must not look whole.
  func cutAnswer() {
    let closing: ByteStream.Closing
    if case .streaming(.untilClose) = answer { closing = .reset } else { closing = .abrupt }
    writeAccessRecord()
    dropUpstream()
    connection?.abort(closing)
  }

  /// The answer is whole.
  func finish() {
    answer = .ended
    writeAccessRecord()
    dropUpstream()
    let persists = persists && !isClientGone
    connection?.exchangeDidEnd(persists: persists)
  }

  /// A line for the error log, with nginx's particulars.
  func log(_ level: LogLevel, _ message: @autoclosure () -> String) {
    guard location.errorLog.takes(level) else { return }
    location.errorLog.log(level, "*\(connection?.facts.number ?? 0) \(message())\(particulars)")
  }
}

extension Exchange {
  /// Answers with an error if nothing was answered yet; else the connection ends.
  func failDuringBody(_ failure: Failure) {
    dropUpstream()
    if case .waiting = answer { fail(failure) } else { cutAnswer() }
  }
}
