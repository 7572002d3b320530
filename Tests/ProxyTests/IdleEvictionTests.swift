@testable import Proxy
import Testing
import Transport

@Suite struct `Want of connections` {
  @Test(arguments: [(0, 0), (1, 1), (7, 1), (16, 2), (100, 12), (256, 32), (100_000, 32)])
  func `an eighth of what idles is ended at once, at least one and at most 32`(idle: Int, ended: Int) {
    #expect(IdleEviction.quota(idle: idle) == ended)
  }

  @Test func `it is said once a second`() {
    var shortage = IdleEviction()
    let times: [UInt64] = [5000, 5001, 5999, 6000, 6500, 9000]
    let said = times.filter { shortage.isToBeSaid(now: $0) }
    #expect(said == [5000, 6000, 9000])
  }

  @Test func `a search that found nothing waits for the next turn of the clock`() {
    var shortage = IdleEviction()
    #expect(shortage.maySearch(now: 7))
    shortage.didSearch(now: 7, ended: 0)
    #expect(!shortage.maySearch(now: 7))
    #expect(shortage.maySearch(now: 8))
    shortage.didSearch(now: 8, ended: 1)
    #expect(shortage.maySearch(now: 8))
  }

  @Test func `a budget asks for room only when it has none, and takes what was made`() {
    let budget = ConnectionBudget(limit: 2)
    var asked = 0
    budget.makeRoom = { asked += 1 }
    #expect(budget.take() && budget.take() && asked == 0)
    #expect(!budget.take() && asked == 1)
    budget.makeRoom = { budget.giveBack() }
    #expect(budget.take() && budget.used == 2)
  }
}
