import Glibc
import Testing

@testable import Transport

@Suite struct `Jobs that block, in line` {
  /// Submits jobs and ends them, without a thread.
  private struct Queue {
    var state: BlockingQueueState<String>
    /// By job, its lane.
    var lanes: [String: Int] = [:]
    var tickets: [String: (number: UInt64, party: String)] = [:]
    /// In the order in which they began.
    var begun: [String] = []

    init(_ limits: BlockingLimits) { state = BlockingQueueState(limits) }

    mutating func ask(_ party: String, _ job: String) -> String {
      switch state.submit(job, for: party) {
      case .begins(let lane, let number):
        lanes[job] = lane
        tickets[job] = (number, party)
        begun.append(job)
        return "begins"
      case .waits(let number):
        tickets[job] = (number, party)
        return "waits"
      case .partyIsFull: return "party is full"
      case .full: return "full"
      }
    }

    mutating func end(_ job: String) {
      guard let lane = lanes.removeValue(forKey: job) else { return }
      guard let next = state.finished(lane: lane) else { return }
      lanes[next] = lane
      begun.append(next)
    }

    mutating func withdraw(_ job: String) {
      if let (number, party) = tickets[job] { state.withdraw(number, of: party) }
    }

    /// Ends all that began, and all that begins by that.
    mutating func endAll() { while let job = lanes.keys.sorted().first { end(job) } }
  }

  @Test func `a party that asks for much waits behind itself`() {
    var queue = Queue(BlockingLimits(lanes: 1))
    #expect(queue.ask("first", "x") == "begins")
    for job in ["a1", "a2", "a3", "a4"] { #expect(queue.ask("a", job) == "waits") }
    for job in ["b1", "b2"] { _ = queue.ask("b", job) }
    _ = queue.ask("c", "c1")
    queue.endAll()
    #expect(queue.begun == ["x", "a1", "b1", "c1", "a2", "b2", "a3", "a4"])
    #expect(queue.state.isIdle && queue.state.waiting == 0)
  }

  /// A copy of the line for each job that ends would take 16 times as long for four times as many jobs.
  @Test func `a job of a long line begins without a copy of the line`() {
    func spent(on count: Int) -> Double {
      var state = BlockingQueueState<[String]>(BlockingLimits(lanes: 1))
      for number in 0..<count { _ = state.submit(["\(number)"], for: "a") }
      let start = threadSeconds
      var begun = 1
      while state.finished(lane: 0) != nil { begun += 1 }
      let end = threadSeconds
      #expect(begun == count && state.isIdle)
      return end - start
    }
    let few = spent(on: 20_000), many = spent(on: 80_000)
    #expect(many < few * 10, "\(few) s, then \(many) s")
  }

  /// What this thread has used of a processor; other load doesn't count.
  private var threadSeconds: Double {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
  }

  @Test func `a party that has all its lanes is passed over, and goes on when one of its jobs ends`() {
    var queue = Queue(BlockingLimits(lanes: 3, partyLanes: 2))
    for job in ["s1", "s2"] { #expect(queue.ask("silent", job) == "begins") }
    for job in ["s3", "s4"] { #expect(queue.ask("silent", job) == "waits") }
    // The third lane is free although two jobs wait.
    #expect(queue.ask("other", "o1") == "begins")
    #expect(queue.ask("other", "o2") == "waits")
    queue.end("o1")
    #expect(queue.begun.last == "o2")
    queue.end("o2")
    #expect(queue.begun.last == "o2", "its lane is free")
    #expect(queue.ask("third", "t1") == "begins")
    queue.end("s1")
    #expect(queue.begun.last == "s3")
    queue.endAll()
    #expect(queue.begun == ["s1", "s2", "o1", "o2", "t1", "s3", "s4"] && queue.state.isIdle)
  }

  @Test func `a job that is withdrawn is never done, and makes room`() {
    var queue = Queue(BlockingLimits(lanes: 1, partyWaiting: 8))
    _ = queue.ask("first", "x")
    for number in 0..<8 { #expect(queue.ask("a", "a\(number)") == "waits") }
    #expect(queue.ask("a", "more") == "party is full")
    for number in 1..<8 { queue.withdraw("a\(number)") }
    #expect(queue.state.waiting(for: "a") == 1)
    #expect(queue.ask("a", "more") == "waits")
    // Twice, too late, or while it is being done: nothing happens.
    for job in ["a1", "x"] { queue.withdraw(job) }
    queue.endAll()
    queue.withdraw("a0")
    #expect(queue.begun == ["x", "a0", "more"] && queue.state.isIdle)
  }

  @Test func `one party does not fill the line, and all together have a bound`() {
    var queue = Queue(BlockingLimits(lanes: 1, waiting: 12, partyWaiting: 8))
    _ = queue.ask("first", "x")
    let answers = (0..<20).map { queue.ask("a", "a\($0)") }
    #expect(answers.filter { $0 == "party is full" }.count == 12)
    for number in 0..<4 { #expect(queue.ask("b\(number)", "b\(number)") == "waits") }
    #expect(queue.ask("c", "c") == "full")
    queue.end("x")
    #expect(queue.ask("c", "c") == "waits")
  }

  @Test func `no more parties than the bound have jobs, and one that has none any more makes room`() {
    var queue = Queue(BlockingLimits(lanes: 8, partyLanes: 1, parties: 2))
    #expect(queue.ask("a", "a") == "begins" && queue.ask("b", "b") == "begins")
    #expect(queue.ask("c", "c") == "full")
    #expect(queue.ask("a", "a2") == "waits")
    queue.end("b")
    #expect(queue.ask("c", "c") == "begins")
    queue.endAll()
    #expect(queue.state.isIdle)
  }

  @Test func `whatever is asked, ended and withdrawn, no lane idles while a job may begin, and no bound is passed`() {
    var random = SystemRandomNumberGenerator()
    let limits = BlockingLimits(lanes: 3, partyLanes: 2, parties: 4, waiting: 10, partyWaiting: 5)
    var queue = Queue(limits)
    var waiting: [String: String] = [:]
    for step in 0..<5000 {
      switch Int.random(in: 0..<4, using: &random) {
      case 0, 1:
        let (party, job) = ("p\(Int.random(in: 0..<6, using: &random))", "j\(step)")
        if queue.ask(party, job) == "waits" { waiting[job] = party }
      case 2: if let job = queue.lanes.keys.randomElement(using: &random) { queue.end(job) }
      default:
        if let job = waiting.keys.randomElement(using: &random) {
          queue.withdraw(job)
          waiting[job] = nil
        }
      }
      for job in queue.lanes.keys { waiting[job] = nil }
      #expect(waiting.count == queue.state.waiting && waiting.count <= 10)
      #expect(Set(queue.lanes.values).count == queue.lanes.count && queue.lanes.count <= 3)
      let running = Dictionary(grouping: queue.lanes.keys.compactMap { queue.tickets[$0]?.party }, by: { $0 })
      #expect(running.values.allSatisfy { $0.count <= 2 })
      if queue.lanes.count < 3 { #expect(waiting.values.allSatisfy { running[$0]?.count == 2 }) }
    }
  }
}
