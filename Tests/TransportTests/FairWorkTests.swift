import Synchronization
import TestSupport
import Testing

@testable import Transport

@Suite struct `Work that is shared` {
  /// One lane, held until `held` is raised; what is done after that.
  private final class Lane: Sendable {
    let work = FairWork<String>("test", lanes: 1, limit: 12, partyLimit: 8)
    let held = Flag()
    private let done = Mutex<[String]>([])

    init() async throws {
      let begun = Flag()
      _ = work.run(for: "first") { [held] in
        begun.raise()
        held.wait()
      }
      try await until("the lane to be taken") { begun.isRaised }
    }

    func ask(_ party: String, _ name: String) -> FairWork<String>.Outcome {
      work.run(for: party) { [self] in done.withLock { $0.append(name) } }
    }

    /// What was done, in order, up to this.
    func done(_ party: String = "last") async -> [String] {
      held.raise()
      await withCheckedContinuation { continuation in _ = work.run(for: party) { continuation.resume() } }
      return done.withLock { $0 }
    }
  }

  @Test func `who asks for much waits behind himself`() async throws {
    let lane = try await Lane()
    for name in ["a1", "a2", "a3", "a4"] { _ = lane.ask("a", name) }
    for name in ["b1", "b2"] { _ = lane.ask("b", name) }
    _ = lane.ask("c", "c1")
    #expect(await lane.done("a") == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"])
  }

  @Test func `what is taken back is never done, and makes room`() async throws {
    let lane = try await Lane()
    var tickets: [FairWork<String>.Ticket] = []
    for number in 0..<8 {
      guard case .taken(let ticket, waits: true) = lane.ask("a", "a\(number)") else { throw Refused() }
      tickets.append(ticket)
    }
    guard case .partyIsFull = lane.ask("a", "more") else { throw Refused() }
    for ticket in tickets.dropFirst() { lane.work.withdraw(ticket) }
    #expect(lane.work.waiting(for: "a") == 1)
    guard case .taken = lane.ask("a", "more") else { throw Refused() }
    // Twice, or too late, is nothing.
    lane.work.withdraw(tickets[1])
    #expect(await lane.done("a") == ["a0", "more"])
    lane.work.withdraw(tickets[0])
    #expect(lane.work.waiting(for: "a") == 0)
  }

  @Test func `one party does not fill the line, and all together have a bound`() async throws {
    let lane = try await Lane()
    var refused = 0
    for number in 0..<20 { if case .partyIsFull = lane.ask("a", "a\(number)") { refused += 1 } }
    #expect(refused == 12)
    for number in 0..<4 { if case .taken = lane.ask("b\(number)", "b") {} else { refused += 1 } }
    #expect(refused == 12)
    guard case .full = lane.ask("c", "c") else { throw Refused() }
    lane.held.raise()
    try await until("room") { if case .taken = lane.ask("c", "c") { true } else { false } }
  }

  private struct Refused: Error {}
}
