import Observability
import Transport
import Upstream

/// What the error log says of upstreams that fail: a dead one fails with every request.
extension Exchange {
  /// At `error` the first of its kind and then a summary; each of them at `debug`.
  func tell(_ failure: AttemptFailure) {
    let text = failure.description
    let server: Int?
    switch failure {
    // Of no server: the one that was tried before has its own line, and a want of ours is no fault of any.
    case .noServer, .noRoom: server = nil
    case .connect(let error) where error.isOurs: server = nil
    default: server = attempts.last?.server
    }
    write(.error, text, group?.failed(server, text, now: worker.loop.now) ?? .write(withheld: 0))
  }

  /// A fault that every request meets until somebody mends it.
  func tellOfRepeated(_ level: LogLevel, _ text: String) {
    write(level, text, worker.repeated.choose(text, now: worker.loop.now))
  }

  private func write(_ level: LogLevel, _ text: String, _ choice: RepeatedLines.Choice) {
    switch choice {
    case .write(withheld: 0): log(level, text)
    case .write(let withheld):
      log(level, "\(text) (\(withheld) more of these were left out since the last)")
    case .withhold: log(.debug, text)
    }
  }

  /// The server has answered. At the level of the failures: who has read of them reads this.
  @inline(__always)
  func noteAnswer() {
    guard let server = attempts.last?.server, let group, group.hasFailures else { return }
    tellRecovery(of: server, in: group)
  }

  @inline(never)
  private func tellRecovery(of server: Int, in group: UpstreamGroup) {
    guard let (failures, milliseconds) = group.answered(server, now: worker.loop.now) else { return }
    log(.error, "upstream answers again, after \(failures) failures in \(milliseconds / 1000) s")
  }
}
