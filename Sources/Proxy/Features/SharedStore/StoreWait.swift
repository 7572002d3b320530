/// An exchange that waits for a store's answer in one of its steps.
enum StoreWait {
  /// Asks, and resumes the exchange with the outcome of `next`, unless it has ended or gone on elsewhere meanwhile. The step
  /// returns `wait` after this.
  static func ask(
    _ store: StoreClient, _ script: StoreScript, _ keys: [[UInt8]], _ arguments: [[UInt8]], _ exchange: Exchange,
    _ next: @escaping (Exchange, StoreClient.Answer) -> StepOutcome
  ) {
    store.ask(script, keys: keys, arguments, then: answer(exchange, next))
    leave(exchange)
  }

  /// Has the store remember a key, and resumes the exchange as `ask` does.
  static func remember(
    _ store: StoreClient, _ key: [UInt8], milliseconds: UInt64, _ exchange: Exchange,
    _ next: @escaping (Exchange, StoreClient.Answer) -> StepOutcome
  ) {
    store.remember(key, milliseconds: milliseconds, then: answer(exchange, next))
    leave(exchange)
  }

  private static func answer(
    _ exchange: Exchange, _ next: @escaping (Exchange, StoreClient.Answer) -> StepOutcome
  ) -> (StoreClient.Answer) -> Void {
    let serial = exchange.serial
    return { answer in
      guard serial == exchange.serial else { return }
      exchange.resume(next(exchange, answer))
    }
  }

  /// The client's end may have come with its request, and then no later event announces it.
  private static func leave(_ exchange: Exchange) {
    if exchange.stream?.hasClientLeft == true { exchange.clientDidLeave() }
  }
}
