public import Transport

/// Asks the servers of one `resolver` directive, for one event loop.
///
/// Who asks for a name that is being asked for shares the question. Bounds: `NameTable` bounds names and waiters;
/// `lookupLimit` questions are open at a time, and the others wait for their turn. A question that nobody waits for any
/// more goes on, so that its answer serves who asks next, unless another question needs its place.
public final class DNSResolver: EventTarget {
  /// Names one who waits, so that it can be withdrawn.
  public struct Ticket: Sendable, Hashable {
    let question: DNSQuestion
    let number: UInt64
  }

  private static let lookupLimit = 128
  /// Deadlines of waiters are looked at this often, in milliseconds.
  private static let grain = 20

  private let servers: [SocketAddress]
  private let policy: DNSPolicy
  private let counts: DNSCounts
  private var table: NameTable
  private var callbacks: [UInt64: (DNSResult) -> Void] = [:]
  private var lookups: [DNSQuestion: NameLookup] = [:]
  private var queue: [DNSQuestion] = []
  private var numbers: UInt64 = 0
  private var firstServer = 0
  private var nextExpiry = UInt64.max
  private var isClosed = false

  /// `servers`: not empty.
  public init(servers: [SocketAddress], policy: DNSPolicy, counts: DNSCounts, loop: EventLoop) {
    self.servers = servers
    self.policy = policy
    self.counts = counts
    table = NameTable()
    super.init(loop: loop)
  }

  /// Calls `answered` once on the loop, perhaps at once, with the records or after `timeout` milliseconds with
  /// `timedOut`. The ticket is for who may leave before; nil: `answered` has been called.
  @discardableResult
  public func resolve(
    _ question: DNSQuestion, timeout: Int, _ answered: @escaping (DNSResult) -> Void
  ) -> Ticket? {
    guard !isClosed, !servers.isEmpty else {
      answered(.failure(.timedOut))
      return nil
    }
    numbers &+= 1
    let number = numbers
    let deadline = loop.now &+ UInt64(clamping: max(1, timeout))
    switch table.ask(question, waiter: number, until: deadline, now: loop.now) {
    case .known(let result):
      answered(result)
      return nil
    case .crowded:
      answered(.failure(.crowded))
      return nil
    case .waits: break
    case .asks: begin(question)
    }
    callbacks[number] = answered
    expect(deadline)
    return Ticket(question: question, number: number)
  }

  /// Forgets one who waits; nothing is called for it.
  public func withdraw(_ ticket: Ticket) {
    guard callbacks.removeValue(forKey: ticket.number) != nil else { return }
    table.withdraw(ticket.number, of: ticket.question)
  }

  /// Ends all questions. Nobody is called any more.
  public func close() {
    isClosed = true
    for lookup in lookups.values { lookup.end() }
    lookups.removeAll()
    queue.removeAll()
    callbacks.removeAll()
    loop.forgetDeadline(of: self)
  }

  // MARK: Questions

  private func begin(_ question: DNSQuestion) {
    guard lookups.count < Self.lookupLimit || giveUpUnwanted() else {
      queue.append(question)
      return
    }
    let order = servers[firstServer...] + servers[..<firstServer]
    // As nginx: each question begins with the next server.
    firstServer = (firstServer + 1) % servers.count
    let lookup = NameLookup(question, policy.families, servers: Array(order), loop: loop) { [weak self] result in
      self?.settle(question, result)
    }
    lookups[question] = lookup
    counts.note(question)
    lookup.begin()
  }

  private func giveUpUnwanted() -> Bool {
    guard let (question, lookup) = lookups.first(where: { !table.isWaitedFor($0.key) }) else { return false }
    lookup.end()
    lookups[question] = nil
    table.abandon(question)
    return true
  }

  private func settle(_ question: DNSQuestion, _ result: DNSResult) {
    lookups[question] = nil
    counts.note(result)
    let lifetime = UInt64(clamping: policy.seconds(of: result)).multipliedReportingOverflow(by: 1000)
    let until = loop.now.addingReportingOverflow(lifetime.overflow ? .max : lifetime.partialValue)
    let waiting = table.settle(question, result, until: until.overflow ? .max : until.partialValue)
    beginWaiting()
    for number in waiting { callbacks.removeValue(forKey: number)?(result) }
  }

  private func beginWaiting() {
    while lookups.count < Self.lookupLimit, !queue.isEmpty {
      let question = queue.removeFirst()
      if table.isWaitedFor(question) { begin(question) } else { table.abandon(question) }
    }
  }

  // MARK: Patience

  private func expect(_ deadline: UInt64) {
    guard deadline < nextExpiry else { return }
    nextExpiry = deadline
    setDeadline(in: max(Self.grain, Int(clamping: deadline &- min(deadline, loop.now))))
  }

  public override func deadlinePassed() {
    nextExpiry = .max
    let late = table.expire(now: loop.now)
    if let next = table.nextDeadline { expect(next) } else { loop.forgetDeadline(of: self) }
    for number in late { callbacks.removeValue(forKey: number)?(.failure(.timedOut)) }
  }
}
