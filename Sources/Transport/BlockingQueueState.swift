import DequeModule

/// The jobs of one class of blocking work: which wait, which lane each begins on, and which is refused.
///
/// Parties take turns, so a party that asks for much waits behind itself. A party that has all the lanes it may have is
/// passed over until one of its jobs ends. A value without threads: its owner does what it is told to begin.
struct BlockingQueueState<Job: Sendable>: Sendable {
  enum Admission: Sendable {
    /// The caller does the job on this lane, and then calls `finished`.
    case begins(lane: Int, number: UInt64)
    case waits(number: UInt64)
    case partyIsFull
    case full
  }

  private struct Party: Sendable {
    /// In the order of the numbers.
    var line = Deque<(number: UInt64, job: Job)>()
    var running = 0

    /// The place of a job that waits.
    func place(of number: UInt64) -> Int? {
      var (low, high) = (0, line.count)
      while low < high {
        let middle = low + (high - low) / 2
        if line[middle].number < number { low = middle + 1 } else { high = middle }
      }
      return low < line.count && line[low].number == number ? low : nil
    }
  }

  private let limits: BlockingLimits
  /// Those with a job that waits or is being done.
  private var parties: [String: Party] = [:]
  /// Parties with a job that may begin as soon as a lane is free; whose turn it is stands first.
  private var turns = Deque<String>()
  /// Whose job each busy lane does.
  private var busy: [Int: String] = [:]
  private var free: [Int] = []
  private var lastNumber: UInt64 = 0
  private(set) var waiting = 0

  init(_ limits: BlockingLimits) { self.limits = limits }

  /// No job waits, and none is being done.
  var isIdle: Bool { parties.isEmpty }

  func waiting(for party: String) -> Int { parties[party]?.line.count ?? 0 }

  mutating func submit(_ job: Job, for name: String) -> Admission {
    guard waiting < limits.waiting else { return .full }
    guard parties[name] != nil || parties.count < limits.parties else { return .full }
    guard waiting(for: name) < limits.partyWaiting else { return .partyIsFull }
    // Taken out, so that the line isn't copied.
    var party = parties.removeValue(forKey: name) ?? Party()
    defer { parties[name] = party }
    lastNumber &+= 1
    // A lane is free only when no job waits that may begin.
    if party.running < limits.partyLanes, let lane = takeLane(for: name) {
      party.running += 1
      return .begins(lane: lane, number: lastNumber)
    }
    if party.line.isEmpty, party.running < limits.partyLanes { turns.append(name) }
    party.line.append((lastNumber, job))
    waiting += 1
    return .waits(number: lastNumber)
  }

  /// The lane's job has ended. The job that the lane does next; nil: none may begin, and the lane is free.
  mutating func finished(lane: Int) -> Job? {
    if let name = busy.removeValue(forKey: lane), var party = parties.removeValue(forKey: name) {
      if party.running == limits.partyLanes, !party.line.isEmpty { turns.append(name) }
      party.running -= 1
      keep(party, name)
    }
    // Taken out, so that the line isn't copied: under a flood, threads and loops would wait for the copies.
    guard let name = turns.popFirst(), var party = parties.removeValue(forKey: name),
      let job = party.line.popFirst()?.job
    else {
      free.append(lane)
      return nil
    }
    waiting -= 1
    party.running += 1
    busy[lane] = name
    if !party.line.isEmpty, party.running < limits.partyLanes { turns.append(name) }
    parties[name] = party
    return job
  }

  /// A job that still waits is returned, and not done any more; one that is being done, or has ended, stays as it is.
  @discardableResult
  mutating func withdraw(_ number: UInt64, of name: String) -> Job? {
    guard let place = parties[name]?.place(of: number), var party = parties.removeValue(forKey: name) else {
      return nil
    }
    let job = party.line.remove(at: place).job
    waiting -= 1
    if party.line.isEmpty { turns.removeAll { $0 == name } }
    keep(party, name)
    return job
  }

  private mutating func takeLane(for name: String) -> Int? {
    guard let lane = free.popLast() ?? (busy.count < limits.lanes ? busy.count : nil) else { return nil }
    busy[lane] = name
    return lane
  }

  private mutating func keep(_ party: Party, _ name: String) {
    parties[name] = party.running == 0 && party.line.isEmpty ? nil : party
  }
}
