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

  private struct Entry {
    var state: State
    var lastUse: UInt64
  }

  private let limit: Int
  private let waiterLimit: Int
  private var entries: [DNSQuestion: Entry] = [:]
  private var uses: UInt64 = 0
  private(set) var waiters = 0

  init(limit: Int = 1024, waiterLimit: Int = 4096) {
    self.limit = limit
    self.waiterLimit = waiterLimit
  }

  var count: Int { entries.count }

  mutating func ask(_ question: DNSQuestion, waiter number: UInt64, until deadline: UInt64, now: UInt64) -> Reply {
    uses &+= 1
    switch entries[question]?.state {
    case .known(let result, let until) where until > now:
      entries[question]?.lastUse = uses
      return .known(result)
    case .open(let others):
      guard waiters < waiterLimit else { return .crowded }
      waiters += 1
      let all = others + [Waiter(number: number, deadline: deadline)]
      entries[question] = Entry(state: .open(all), lastUse: uses)
      return .waits
    case .known: break
    case nil:
      guard makeRoom() else { return .crowded }
    }
    guard waiters < waiterLimit else { return .crowded }
    waiters += 1
    entries[question] = Entry(state: .open([Waiter(number: number, deadline: deadline)]), lastUse: uses)
    return .asks
  }

  /// Keeps the result of an open question; returns who waits for it.
  mutating func settle(_ question: DNSQuestion, _ result: DNSResult, until: UInt64) -> [UInt64] {
    guard case .open(let waiting) = entries[question]?.state else { return [] }
    waiters -= waiting.count
    entries[question]?.state = .known(result, until: until)
    return waiting.map(\.number)
  }

  /// Forgets an open question that nobody waits for.
  mutating func abandon(_ question: DNSQuestion) {
    if case .open(let waiting) = entries[question]?.state, waiting.isEmpty { entries[question] = nil }
  }

  /// Takes out and returns those whose patience is over. Their questions stay open.
  mutating func expire(now: UInt64) -> [UInt64] {
    var late: [UInt64] = []
    for (question, entry) in entries {
      guard case .open(let waiting) = entry.state else { continue }
      let left = waiting.filter { $0.deadline > now }
      guard left.count < waiting.count else { continue }
      late += waiting.filter { $0.deadline <= now }.map(\.number)
      entries[question]?.state = .open(left)
    }
    waiters -= late.count
    return late
  }

  /// Takes out one who waits no more.
  mutating func withdraw(_ number: UInt64, of question: DNSQuestion) {
    guard case .open(var waiting) = entries[question]?.state,
      let index = waiting.firstIndex(where: { $0.number == number })
    else { return }
    waiting.remove(at: index)
    waiters -= 1
    entries[question]?.state = .open(waiting)
  }

  func isWaitedFor(_ question: DNSQuestion) -> Bool {
    if case .open(let waiting) = entries[question]?.state { !waiting.isEmpty } else { false }
  }

  /// nil: nobody waits.
  var nextDeadline: UInt64? {
    guard waiters > 0 else { return nil }
    return entries.values.reduce(nil) { least, entry in
      guard case .open(let waiting) = entry.state, let first = waiting.map(\.deadline).min() else { return least }
      return min(least ?? first, first)
    }
  }

  private mutating func makeRoom() -> Bool {
    guard entries.count >= limit else { return true }
    let oldest = entries.lazy.filter { if case .known = $0.value.state { true } else { false } }
      .min { $0.value.lastUse < $1.value.lastUse }
    guard let oldest else { return false }
    entries[oldest.key] = nil
    return true
  }
}
