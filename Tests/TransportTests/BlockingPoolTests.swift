import Synchronization
import TestSupport
import Testing

@testable import Transport

/// One test at a time: the threads that Dispatch gives are the process's.
@Suite(.serialized, .timeLimit(.minutes(10))) struct `Work that blocks` {
  /// Runs `body` once the work that `hold` begins is under way, and lets that work end afterwards.
  private func holding(
    _ pool: BlockingPool, _ work: BlockingWork, _ parties: [String], _ body: () async throws -> Void
  ) async throws {
    let held = Flag(), begun = Mutex(0)
    defer { held.raise() }
    for party in parties {
      let outcome = pool.run(work, for: party) {
        begun.withLock { $0 += 1 }
        held.wait()
      }
      #expect(outcome.isTaken)
    }
    let lanes = min(work.limits.lanes, parties.count)
    try await until("every lane to be taken") { begun.withLock { $0 } == lanes }
    try await body()
    held.raise()
    try await until("the work to end") { pool.isIdle(work) }
    #expect(begun.withLock { $0 } == parties.count)
  }

  @Test(arguments: BlockingWork.allCases)
  func `a class whose lanes are all taken holds up no other class`(work: BlockingWork) async throws {
    let pool = BlockingPool()
    try await holding(pool, work, (0..<work.limits.lanes).map { "\($0 % work.limits.parties)" }) {
      for other in BlockingWork.allCases where other != work {
        await withCheckedContinuation { continuation in
          #expect(pool.run(other, for: "x") { continuation.resume() }.isTaken)
        }
      }
      #expect(!pool.isIdle(work))
    }
  }

  @Test func `all classes together need fewer threads than Dispatch gives`() {
    #expect(BlockingWork.allCases.reduce(0) { $0 + $1.limits.lanes } < 224)
  }

  @Test func `work that was withdrawn is never done`() async throws {
    let pool = BlockingPool()
    let isDone = Flag()
    try await holding(pool, .passwords, ["a", "b"]) {
      guard case .taken(let ticket, waits: true) = pool.run(.passwords, for: "c", { isDone.raise() }) else {
        Issue.record("it does not wait")
        return
      }
      #expect(pool.waiting(.passwords, for: "c") == 1)
      pool.withdraw(ticket)
      #expect(pool.waiting(.passwords, for: "c") == 0)
    }
    #expect(!isDone.isRaised)
  }

  /// Calls `body` when the last reference to it is dropped.
  private final class Content: Sendable {
    private let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    deinit { body() }
  }

  @Test func `work that is over holds nothing, however long its lane has more to do`() async throws {
    let pool = BlockingPool(), isFree = Flag(), held = Flag(), next = Flag()
    defer { held.raise() }
    let lanes = BlockingWork.files.limits.lanes
    // The first job of each lane, and then one that takes long.
    for _ in 0..<(lanes - 1) { _ = pool.run(.files, for: "a") { held.wait() } }
    let content = Content { isFree.raise() }
    _ = pool.run(.files, for: "a") { [content] in
      withExtendedLifetime(content) { next.wait() }
    }
    _ = pool.run(.files, for: "a") { held.wait() }
    _ = consume content
    next.raise()
    try await until("what the job held to be free") { isFree.isRaised }
    #expect(!pool.isIdle(.files))
    held.raise()
    try await until("the work to end") { pool.isIdle(.files) }
  }

  @Test func `what work that is withdrawn has held may ask the pool when it goes`() async throws {
    let pool = BlockingPool(), isDone = Flag()
    try await holding(pool, .passwords, ["a", "b"]) {
      let content = Content { _ = pool.run(.files, for: "x") { isDone.raise() } }
      guard case .taken(let ticket, waits: true) = pool.run(.passwords, for: "c", { [content] in _ = content }) else {
        Issue.record("it does not wait")
        return
      }
      _ = consume content
      _ = try await offPool { pool.withdraw(ticket) }
      try await until("the work of the end") { isDone.isRaised }
    }
  }

  // MARK: Names

  private static let here = SocketAddress.ipv4(address: 0x7F00_0001, port: 1)

  /// Names that begin with `slow` are answered once `held` is raised.
  private func resolver(_ pool: BlockingPool, _ held: Flag) -> Resolver {
    Resolver(pool: pool) { host, _ in
      if host.hasPrefix("slow") { held.wait() }
      return [Self.here]
    }
  }

  @Test func `slow names of requests do not delay a reload's, and past the bound there is no answer`() async throws {
    let pool = BlockingPool(), held = Flag()
    defer { held.raise() }
    let resolver = resolver(pool, held)
    let loop = try EventLoop(index: 0)
    loop.start { _ in }
    defer { loop.post { loop.stop() } }
    let limits = BlockingWork.requestNames.limits
    let answers = Mutex<[Resolver.Answer]>([])
    let asked = limits.lanes + limits.waiting + 7
    for number in 0..<asked {
      resolver.resolve("slow\(number)", port: 1, on: loop) { answer in answers.withLock { $0.append(answer) } }
    }
    try await until("those past the bound to hear of it") { answers.withLock { $0.count } == 7 }
    #expect(answers.withLock { $0 } == Array(repeating: .tooManyNames, count: 7))
    let names = Set((0..<100).map { Resolver.Name("quick\($0)", port: 1) })
    let found = try await offPool { resolver.addresses(of: names) }
    #expect(found.count == 100 && found.values.allSatisfy { $0 == [Self.here] })
    #expect(answers.withLock { $0.count } == 7)
    held.raise()
    try await until("the slow ones") { answers.withLock { $0.count } == asked }
    #expect(answers.withLock { $0.filter { $0 == .addresses([Self.here]) }.count } == asked - 7)
  }

  @Test func `one slow name holds up no other name`() async throws {
    let pool = BlockingPool(), held = Flag()
    defer { held.raise() }
    let resolver = resolver(pool, held)
    let loop = try EventLoop(index: 0)
    loop.start { _ in }
    defer { loop.post { loop.stop() } }
    for _ in 0..<40 { resolver.resolve("slow", port: 1, on: loop) { _ in } }
    await withCheckedContinuation { continuation in
      resolver.resolve("quick", port: 1, on: loop) { _ in continuation.resume() }
    }
    #expect(!pool.isIdle(.requestNames))
  }
}
