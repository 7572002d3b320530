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
    end(unfinishedClosing)
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

  /// The worker ends. How the connection is to be closed.
  func connectionWasCut() -> ByteStream.Closing {
    let closing = unfinishedClosing
    if connection != nil { writeAccessRecord() }
    dropUpstream()
    worker.giveBack(self)
    return closing
  }

  func dropUpstream() {
    let attempt = upstream
    upstream = nil
    attempt?.abandon()
  }

  // MARK: Ends

  /// The answer can't be completed.
  func cutAnswer() { end(unfinishedClosing) }

  private func end(_ closing: ByteStream.Closing) {
    writeAccessRecord()
    dropUpstream()
    connection?.abort(closing)
  }

  /// How the connection ends with an answer that is not whole, so that the client takes no part of it for all.
  private var unfinishedClosing: ByteStream.Closing {
    switch answer {
    // The end of the connection would be the end of the body.
    case .streaming(.untilClose): .reset
    case .streaming, .tunnel: .abrupt
    case .waiting, .ended: .orderly
    }
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
