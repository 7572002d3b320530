import Forward
package import Redis
import Traffic

/// What the store's reply to a question says. Each initializer takes exactly the replies that the question's script or
/// command has, and is nil for any other: such a reply is no answer, and `StoreClient` drops the connection, because
/// whatever comes after it on that connection may answer something else.
///
/// Numbers beyond what a script returns are refused here, so that nobody after this has to bound them.

/// The reply to `StoreScript.rates`. Amounts are thousandths of a request.
package enum RateAnswer: Equatable {
  /// The excess of each key, in the order of the question: not negative, and within the key's burst.
  case allowed([Int])
  /// The key that refuses, as an index into those of the question, and its excess: beyond the key's burst.
  case refused(by: Int, excess: Int)

  /// `bursts`: of the keys that were asked.
  package init?(_ reply: RedisReply, bursts: [Int]) {
    guard case .list(let items) = reply else { return nil }
    var numbers: [Int] = []
    for item in items {
      guard case .number(let number) = item, let number = Int(exactly: number), number >= 0 else { return nil }
      numbers.append(number)
    }
    guard let refusing = numbers.first else { return nil }
    let excesses = Array(numbers.dropFirst())
    guard refusing > 0 else {
      guard excesses.count == bursts.count, zip(excesses, bursts).allSatisfy({ $0 <= $1 }) else { return nil }
      self = .allowed(excesses)
      return
    }
    guard excesses.count == 1, bursts.indices.contains(refusing - 1), excesses[0] > bursts[refusing - 1] else {
      return nil
    }
    self = .refused(by: refusing - 1, excess: excesses[0])
  }
}

/// The reply to `StoreScript.take`.
package enum TakeAnswer: Equatable {
  case counted, full

  package init?(_ reply: RedisReply) {
    switch reply {
    case .number(1): self = .counted
    case .number(0): self = .full
    default: return nil
    }
  }
}

/// The reply to `StoreScript.attempt`.
package enum AttemptAnswer: Equatable {
  case admitted
  /// Seconds, at least one.
  case tooMany(wait: Int64)

  package init?(_ reply: RedisReply) {
    guard case .number(let wait) = reply, wait >= 0 else { return nil }
    self = wait == 0 ? .admitted : .tooMany(wait: wait)
  }
}

/// The reply to `SET … NX`: the store remembers the key from now on, or knew it.
package enum NoveltyAnswer: Equatable {
  case new, seen

  package init?(_ reply: RedisReply) {
    switch reply {
    case .text(let text) where text == Array("OK".utf8): self = .new
    case .none: self = .seen
    default: return nil
    }
  }
}
