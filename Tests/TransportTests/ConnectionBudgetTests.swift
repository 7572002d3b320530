import Testing
@testable import Transport

@Suite struct `Places of connections` {
  @Test func `the reserve is taken only when all else is, and a place of it that is given back is no other's`() {
    let budget = ConnectionBudget(limit: 2)
    #expect(budget.takeReserved() && budget.take() && budget.isFull && !budget.take())
    for _ in 0..<ConnectionBudget.reserve { #expect(budget.takeReserved()) }
    #expect(!budget.takeReserved())
    budget.giveBack()
    #expect(!budget.take() && budget.takeReserved())
    for _ in 0..<ConnectionBudget.reserve { budget.giveBack() }
    #expect(!budget.take())
    budget.giveBack()
    #expect(budget.take())
  }

  @Test func `no limit is too high for it`() {
    #expect(ConnectionBudget(limit: .max).takeReserved())
  }
}
