import Redis

/// An exchange that waits for a store's answer.
enum StoreWait {
  /// Asks in a step, which returns `wait` after this, and resumes the exchange with the outcome of `next`, unless it has ended
  /// or gone on elsewhere meanwhile.
  static func ask(
    _ store: StoreClient, _ script: StoreScript, _ keys: [[UInt8]], _ arguments: [[UInt8]], _ exchange: Exchange,
    _ next: @escaping (Exchange, StoreClient.Answer) -> StepOutcome
  ) {
    store.ask(script, keys: keys, arguments, then: answer(exchange) { $0.resume(next($0, $1)) })
    leave(exchange)
  }

  /// Has the store remember a key. `next`: gets the answer, unless the exchange has ended or gone on elsewhere. The caller
  /// does nothing after this, because the exchange may have ended.
  static func remember(
    _ store: StoreClient, _ key: [UInt8], milliseconds: UInt64, _ exchange: Exchange,
    _ next: @escaping (Exchange, Novelty) -> Void
  ) {
    store.remember(
      key, milliseconds: milliseconds,
      then: answer(exchange) { exchange, answer in
        switch answer {
        case .success(.text): next(exchange, .new)
        case .success(RedisReply.none): next(exchange, .seen)
        case .success, .failure: next(exchange, .unanswered)
        }
      })
    leave(exchange)
  }

  /// What a store says of a key that it should remember.
  enum Novelty { case new, seen, unanswered }

  static func answer(
    _ exchange: Exchange, _ next: @escaping (Exchange, StoreClient.Answer) -> Void
  ) -> (StoreClient.Answer) -> Void {
    let serial = exchange.serial
    return { answer in
      if serial == exchange.serial { next(exchange, answer) }
    }
  }

  /// The client's end may have come with its request, and then no later event announces it.
  static func leave(_ exchange: Exchange) {
    if exchange.stream?.hasClientLeft == true { exchange.clientDidLeave() }
  }
}
