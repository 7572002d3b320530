import Bytes

/// The names that a resolver knows, and those that it asks for: a value without a socket or a clock.
///
/// At most `limit` names. The name that was used least recently leaves, but never one that somebody waits for. Times are
/// milliseconds of one monotonic clock.
struct NameTable {
  enum Reply: Hashable {
    case known(DNSResult)
    /// Somebody else's question is open.
    case waits
    /// The caller has to ask.
    case asks
    case crowded
  }

  private struct Waiter {
    var number: UInt64
    var deadline: UInt64
  }

  private enum State {
    case known(DNSResult, until: UInt64)
    case open([Waiter])
  }

  private let limit: Int
  private let waiterLimit: Int
  private var entries = LRUTable<DNSQuestion, State>()
  private(set) var waiters = 0

  init(limit: Int = 1024, waiterLimit: Int = 4096) {
    self.limit = limit
    self.waiterLimit = waiterLimit
  }

  var count: Int { entries.count }

  mutating func ask(_ question: DNSQuestion, waiter number: UInt64, until deadline: UInt64, now: UInt64) -> Reply {
    let place = entries.place(of: question)
    switch state(of: question) {
    case .known(let result, let until) where until > now:
      if let place { entries.use(place) }
      return .known(result)
    case .open(let others):
      guard waiters < waiterLimit else { return .crowded }
      waiters += 1
      entries.insert(.open(others + [Waiter(number: number, deadline: deadline)]), for: question)
      return .waits
    case .known: break
    case nil:
      guard makeRoom() else { return .crowded }
    }
    guard waiters < waiterLimit else { return .crowded }
    waiters += 1
    entries.insert(.open([Waiter(number: number, deadline: deadline)]), for: question)
    return .asks
  }

  /// Keeps the result of an open question; returns who waits for it.
  mutating func settle(_ question: DNSQuestion, _ result: DNSResult, until: UInt64) -> [UInt64] {
    guard let place = entries.place(of: question), case .open(let waiting) = entries[place] else { return [] }
    waiters -= waiting.count
    entries[place] = .known(result, until: until)
    return waiting.map(\.number)
  }

  /// Forgets an open question that nobody waits for.
  mutating func abandon(_ question: DNSQuestion) {
    if case .open(let waiting) = state(of: question), waiting.isEmpty { entries.remove(question) }
  }

  /// Takes out and returns those whose patience is over. Their questions stay open.
  mutating func expire(now: UInt64) -> [UInt64] {
    var late: [UInt64] = []
    for (place, _, state) in entries.all {
      guard case .open(let waiting) = state else { continue }
      let left = waiting.filter { $0.deadline > now }
      guard left.count < waiting.count else { continue }
      late += waiting.filter { $0.deadline <= now }.map(\.number)
      entries[place] = .open(left)
    }
    waiters -= late.count
    return late
  }

  /// Takes out one who waits no more.
  mutating func withdraw(_ number: UInt64, of question: DNSQuestion) {
    guard let place = entries.place(of: question), case .open(var waiting) = entries[place],
      let index = waiting.firstIndex(where: { $0.number == number })
    else { return }
    waiting.remove(at: index)
    waiters -= 1
    entries[place] = .open(waiting)
  }

  func isWaitedFor(_ question: DNSQuestion) -> Bool {
    if case .open(let waiting) = state(of: question) { !waiting.isEmpty } else { false }
  }

  /// nil: nobody waits.
  var nextDeadline: UInt64? {
    guard waiters > 0 else { return nil }
    return entries.all.reduce(nil) { least, entry in
      guard case .open(let waiting) = entry.value, let first = waiting.map(\.deadline).min() else { return least }
      return min(least ?? first, first)
    }
  }

  private func state(of question: DNSQuestion) -> State? { entries.place(of: question).flatMap { entries[$0] } }

  private mutating func makeRoom() -> Bool {
    let room = entries.makeRoom(limit: limit) { if case .known = $0 { true } else { false } }
    return if case .none = room { false } else { true }
  }
}
