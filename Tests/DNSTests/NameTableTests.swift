import Testing

@testable import DNS

@Suite struct `The table of names` {
  private func question(_ name: String) throws -> DNSQuestion { DNSQuestion(try #require(DNSName(name)), .addresses) }
  private let found = DNSResult.success(DNSRecords(ttl: 5))

  @Test func `asks once for all who wait, and remembers the answer as long as it counts`() throws {
    var table = NameTable()
    let name = try question("a.test")
    #expect(table.ask(name, waiter: 1, until: 100, now: 0) == .asks)
    #expect(table.ask(name, waiter: 2, until: 100, now: 0) == .waits)
    #expect(table.ask(DNSQuestion(name.name, .services), waiter: 3, until: 100, now: 0) == .asks)
    #expect(table.settle(name, found, until: 50) == [1, 2])
    #expect(table.settle(name, found, until: 70) == [])
    #expect(table.ask(name, waiter: 4, until: 100, now: 49) == .known(found))
    #expect(table.ask(name, waiter: 5, until: 100, now: 50) == .asks)
    #expect(table.waiters == 2)
  }

  @Test func `lets go who has waited long enough or leaves, and keeps the question open`() throws {
    var table = NameTable()
    let name = try question("a.test")
    _ = table.ask(name, waiter: 1, until: 100, now: 0)
    _ = table.ask(name, waiter: 2, until: 50, now: 0)
    _ = table.ask(name, waiter: 3, until: 200, now: 0)
    #expect(table.nextDeadline == 50)
    #expect(table.expire(now: 49) == [])
    #expect(table.expire(now: 100).sorted() == [1, 2])
    table.withdraw(3, of: name)
    table.withdraw(3, of: name)
    #expect(!table.isWaitedFor(name))
    #expect(table.nextDeadline == nil)
    #expect(table.waiters == 0)
    #expect(table.ask(name, waiter: 4, until: 300, now: 101) == .waits)
    table.abandon(name)
    #expect(table.settle(name, found, until: 500) == [4])
  }

  @Test func `is bounded: the name used least recently leaves, and no name that is waited for`() throws {
    var table = NameTable(limit: 3, waiterLimit: 4)
    for (number, name) in ["a.test", "b.test"].enumerated() {
      let name = try question(name)
      _ = table.ask(name, waiter: UInt64(number), until: 9, now: 0)
      _ = table.settle(name, found, until: 1000)
    }
    #expect(table.ask(try question("open.test"), waiter: 8, until: 9, now: 0) == .asks)
    #expect(table.ask(try question("a.test"), waiter: 9, until: 9, now: 0) == .known(found))
    #expect(table.ask(try question("c.test"), waiter: 10, until: 9, now: 0) == .asks)
    #expect(table.count == 3)
    #expect(table.ask(try question("b.test"), waiter: 11, until: 9, now: 0) == .asks)
    #expect(table.ask(try question("d.test"), waiter: 12, until: 9, now: 0) == .crowded)
    #expect(table.ask(try question("open.test"), waiter: 13, until: 9, now: 0) == .waits)
    #expect(table.ask(try question("open.test"), waiter: 14, until: 9, now: 0) == .crowded)
    table.withdraw(13, of: try question("open.test"))
    #expect(table.ask(try question("open.test"), waiter: 15, until: 9, now: 0) == .waits)
  }
}
