import Glibc
import Synchronization
import TestSupport
import Testing

@testable import Transport

@Suite(.timeLimit(.minutes(10))) struct EventLoopTests {
  @Test func `blocks run in the order in which they were posted`() async throws {
    let loop = try Stage.loop()
    let numbers: [Int] = await withCheckedContinuation { continuation in
      let box = Box(seen: Mutex([]))
      for number in 0..<1000 { loop.post { box.seen.withLock { $0.append(number) } } }
      loop.post { continuation.resume(returning: box.seen.withLock { $0 }) }
    }
    #expect(numbers == Array(0..<1000))
  }

  @Test func `no block of several threads is lost, and each thread's keep their order`() async throws {
    let loop = try Stage.loop()
    let box = Box(seen: Mutex([]))
    await withTaskGroup(of: Void.self) { group in
      for thread in 0..<4 {
        group.addTask {
          for number in 0..<500 { loop.post { box.seen.withLock { $0.append(thread * 1000 + number) } } }
        }
      }
    }
    let seen = try await onLoop { _ in box.seen.withLock { $0 } }
    #expect(seen.count == 2000)
    for thread in 0..<4 {
      #expect(seen.filter { $0 / 1000 == thread } == (0..<500).map { thread * 1000 + $0 })
    }
  }

  @Test func `a batch runs a few of many posted blocks, in their order, and the loop wakes for the others`() throws {
    let mailbox = try Mailbox()
    func isReadable() -> Bool {
      var ready = pollfd(fd: mailbox.descriptor, events: Int16(POLLIN), revents: 0)
      return poll(&ready, 1, 0) == 1
    }
    let box = Box(seen: Mutex([]))
    for number in 0..<100 { mailbox.post { box.seen.withLock { $0.append(number) } } }
    for left in [68, 36, 4, 0] {
      #expect(isReadable())
      for block in mailbox.take(atMost: 32) { block() }
      #expect(box.seen.withLock { $0 } == Array(0..<(100 - left)))
    }
    #expect(!isReadable() && mailbox.take(atMost: 32).isEmpty)
    let loop = try EventLoop(index: 0), count = Box(seen: Mutex([]))
    for number in 0..<100 { loop.post { count.seen.withLock { $0.append(number) } } }
    loop.wakeUp()
    #expect(count.seen.withLock { $0 }.count == 32)
  }

  @Test func `a loop that never ran is gone once it has let go of its targets and blocks`() throws {
    weak var seen: EventLoop?
    do {
      let loop = try EventLoop(index: 0), target = EventTarget(loop: loop)
      seen = loop
      target.setDeadline(in: 1000)
      loop.again(EventTarget(loop: loop))
      loop.post { _ = loop.index }
      loop.abandon()
      #expect(!target.hasDeadline)
      target.setDeadline(in: nil)
      loop.wakeUp()
    }
    #expect(seen == nil)
  }

  @Test func `a value confined to a loop is made before it is used, and is gone when released`() async throws {
    final class Value {}
    let confined = LoopConfined(on: try Stage.loop()) { _ in Value() }
    let used: Bool = await withCheckedContinuation { continuation in
      confined.run { _ in continuation.resume(returning: true) }
    }
    #expect(used)
    confined.release()
    let box = Box(seen: Mutex([]))
    confined.run { _ in box.seen.withLock { $0.append(1) } }
    #expect(try await onLoop { _ in box.seen.withLock { $0 } } == [])
  }

  @Test func `an acceptor hands on every connection until it is stopped`() async throws {
    let listener = try Sockets.listen(
      on: .ipv4(address: 0x7F00_0001, port: 0), backlog: 64, reuseport: false, ipv6only: true)
    let address = try #require(Sockets.localAddress(of: listener))
    let (accepted, sink) = AsyncStream<Int32>.makeStream()
    let holder = try await onLoop { loop in
      let acceptor = SocketAcceptor(
        loop: loop, descriptor: listener, isShared: false, accepted: { descriptor, _ in sink.yield(descriptor) },
        exhausted: { _ in })
      try acceptor.start()
      return LoopBox(acceptor)
    }
    var clients: [Int32] = []
    for _ in 0..<100 { clients.append(try Sockets.connect(to: address)) }
    var count = 0
    for await descriptor in accepted {
      close(descriptor)
      count += 1
      if count == 100 { break }
    }
    try await onLoop { _ in holder.value.stop() }
    clients.append(try Sockets.connect(to: address))
    try await onLoop { _ in }
    var ready = pollfd(fd: listener, events: Int16(POLLIN), revents: 0)
    #expect(poll(&ready, 1, 10_000) == 1, "the connection is still in the socket's queue")
    for client in clients { close(client) }
    close(listener)
  }

  @Test func `a budget takes up to its bound and is never below nothing`() {
    let budget = ConnectionBudget(limit: 2)
    #expect(budget.take())
    #expect(budget.take())
    #expect(!budget.take())
    budget.giveBack()
    #expect(budget.take())
    for _ in 0..<5 { budget.giveBack() }
    #expect(budget.used == 0)
  }
}

private final class Box: Sendable {
  let seen: Mutex<[Int]>
  init(seen: consuming Mutex<[Int]>) { self.seen = seen }
}
