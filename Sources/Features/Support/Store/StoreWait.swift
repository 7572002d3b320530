import Redis
import Traffic

/// An exchange that waits for a store's answer.
enum StoreWait {
  /// Asks in a step, which returns `wait` after this, and resumes the exchange with the outcome of `next`, unless it has ended
  /// or gone on elsewhere meanwhile.
  /// `read`: nil for what is no reply to the script.
  static func ask<Value>(
    _ store: StoreClient, _ script: StoreScript, _ keys: [[UInt8]], _ arguments: [[UInt8]], _ exchange: Exchange,
    _ read: @escaping (RedisReply) -> Value?, _ next: @escaping (Exchange, StoreClient.Answer<Value>) -> StepOutcome
  ) {
    store.ask(script, keys: keys, arguments, then: answer(exchange, read) { $0.resume(next($0, $1)) })
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
      then: answer(exchange, NoveltyAnswer.init) { exchange, answer in
        switch answer {
        case .success(.new): next(exchange, .new)
        case .success(.seen): next(exchange, .seen)
        case .failure: next(exchange, .unanswered)
        }
      })
    leave(exchange)
  }

  /// What a store says of a key that it should remember.
  enum Novelty { case new, seen, unanswered }

  /// A taker for an exchange, which gets nothing once it has ended or gone on elsewhere.
  static func answer<Value>(
    _ exchange: Exchange, _ read: @escaping (RedisReply) -> Value?,
    _ next: @escaping (Exchange, StoreClient.Answer<Value>) -> Void
  ) -> StoreClient.Taker {
    let serial = exchange.serial
    return StoreClient.reading(read) { answer in
      if serial == exchange.serial { next(exchange, answer) }
    }
  }

  /// The client's end may have come with its request, and then no later event announces it.
  static func leave(_ exchange: Exchange) {
    if exchange.stream?.hasClientLeft == true { exchange.clientDidLeave() }
  }
}
