import Enrolment
import Redis
import Traffic

/// One attempt at a password, which counts in a store until it is forgiven.
struct SharedAttempt {
  fileprivate let store: StoreClient
  fileprivate let keys: [[UInt8]]
  fileprivate let name: [UInt8]

  /// The password was right, or nobody has looked at it.
  func forgive() { for key in keys { store.send([Array("ZREM".utf8), key, name]) } }
}

/// Wrong passwords of all machines (`enrolment_failures_store`).
struct StoreGuesses {
  let store: StoreClient
  /// What counts while the store can't be asked.
  let failing: StoreUse.Failing

  enum Decision {
    /// The attempt may be made. nil: the store has not counted it, and this process decides alone.
    case admitted(SharedAttempt?)
    /// Seconds.
    case tooMany(wait: Int64)
    case unanswered
  }

  /// Counts an attempt, and tells `next` what the store says, unless the exchange has ended meanwhile. Returns false,
  /// without a call, if no store counts. The caller returns at once otherwise.
  func begin(
    _ exchange: Exchange, _ keys: [FailureWindow.Key], _ limit: FailureWindow.Limit?,
    _ next: @escaping (Exchange, Decision) -> Void
  ) -> Bool {
    guard let limit else { return false }
    if store.fault != nil, failing == .local { return false }
    let names = keys.map { key in
      switch key {
      case .user(let user): StoreKey.of("guess", "user", user)
      case .address(let address): StoreKey.of("guess", "address", Array(address.utf8))
      }
    }
    let attempt = SharedAttempt(store: store, keys: names, name: Array("\(UInt64.random(in: 0 ... .max))".utf8))
    let (micros, overflow) = limit.time.multipliedReportingOverflow(by: 1_000_000)
    let arguments = [attempt.name, Array("\(limit.count)".utf8), Array("\(overflow ? Int64.max / 4 : micros)".utf8)]
    store.ask(
      .attempt, keys: names, arguments,
      then: StoreWait.answer(exchange, AttemptAnswer.init) { exchange, answer in
        switch answer {
        case .success(.admitted): next(exchange, .admitted(attempt))
        case .success(.tooMany(let wait)): next(exchange, .tooMany(wait: wait))
        case .failure: next(exchange, failing == .local ? .admitted(nil) : .unanswered)
        }
      })
    StoreWait.leave(exchange)
    return true
  }

  static let unanswered = "no answer of the shared store, which counts wrong passwords"
}
