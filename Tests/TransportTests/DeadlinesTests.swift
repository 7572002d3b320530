import TestSupport
import Testing

@testable import Transport

@Suite struct DeadlinesTests {
  final class Target {
    let name: Int
    init(_ name: Int) { self.name = name }
  }

  @Test func `those that are due come earliest first, the others stay`() {
    var deadlines = Deadlines<Target>()
    for (name, time) in [(1, 30), (2, 10), (3, 20), (4, 40)] {
      deadlines.set(deadlines.add(Target(name)), to: UInt64(time))
    }
    var order: [Int] = []
    while let target = deadlines.pop(now: 30) { order.append(target.name) }
    #expect(order == [2, 3, 1])
    #expect(deadlines.next == 40)
  }

  @Test func `a deadline moved later is not called at its earlier time, and is called at its later one`() {
    var deadlines = Deadlines<Target>()
    let slot = deadlines.add(Target(1))
    deadlines.set(slot, to: 10)
    deadlines.set(slot, to: 50)
    #expect(deadlines.pop(now: 49) == nil)
    #expect(deadlines.next == 50)
    #expect(deadlines.pop(now: 50)?.name == 1)
  }

  @Test func `a deadline moved earlier is called once, at the earlier time`() {
    var deadlines = Deadlines<Target>()
    let slot = deadlines.add(Target(1))
    deadlines.set(slot, to: 50)
    deadlines.set(slot, to: 10)
    #expect(deadlines.pop(now: 10)?.name == 1)
    #expect(deadlines.pop(now: 100) == nil)
    #expect(deadlines.next == .max)
  }

  @Test func `two entries of the same time are one call`() {
    var deadlines = Deadlines<Target>()
    let slot = deadlines.add(Target(1))
    deadlines.set(slot, to: 100)
    deadlines.set(slot, to: 50)
    deadlines.set(slot, to: 100)
    #expect(deadlines.pop(now: 50) == nil)
    #expect(deadlines.pop(now: 100)?.name == 1)
    #expect(deadlines.pop(now: 100) == nil)
  }

  @Test func `a deadline that was taken back is not called, and may be set again`() {
    var deadlines = Deadlines<Target>()
    let slot = deadlines.add(Target(1))
    deadlines.set(slot, to: 10)
    deadlines.set(slot, to: Deadlines<Target>.never)
    #expect(deadlines.pop(now: 20) == nil)
    deadlines.set(slot, to: 30)
    #expect(deadlines.pop(now: 30)?.name == 1)
  }

  @Test func `a removed target is neither called nor kept`() {
    var deadlines = Deadlines<Target>()
    weak var kept: Target?
    do {
      let target = Target(1)
      kept = target
      let slot = deadlines.add(target)
      deadlines.set(slot, to: 10)
      deadlines.remove(slot)
    }
    #expect(kept == nil)
    #expect(deadlines.pop(now: 100) == nil)
  }

  @Test func `who takes over a slot is not called for the one before`() {
    var deadlines = Deadlines<Target>()
    let slot = deadlines.add(Target(1))
    deadlines.set(slot, to: 10)
    deadlines.remove(slot)
    let next = deadlines.add(Target(2))
    #expect(next == slot)
    #expect(deadlines.pop(now: 50) == nil)
    deadlines.set(next, to: 60)
    #expect(deadlines.pop(now: 60)?.name == 2)
  }

  @Test func `what is removed twice is free once`() {
    var deadlines = Deadlines<Target>()
    let slot = deadlines.add(Target(1))
    deadlines.remove(slot)
    deadlines.remove(slot)
    #expect(deadlines.add(Target(2)) != deadlines.add(Target(3)))
  }

  @Test(arguments: [1, 2, 3, 4]) func `any sequence of moves gives what a plain list gives`(seed: Int) {
    var random = SeededNumbers(seed: UInt64(seed))
    var deadlines = Deadlines<Target>()
    var model: [Int: (slot: Int, time: UInt64)] = [:]
    var now: UInt64 = 0
    for name in 0..<3000 {
      switch Int.random(in: 0..<5, using: &random) {
      case 0, 1:
        let slot = deadlines.add(Target(name))
        let time = now + UInt64.random(in: 1...50, using: &random)
        deadlines.set(slot, to: time)
        model[name] = (slot, time)
      case 2:
        guard let (name, entry) = model.randomElement(using: &random) else { continue }
        let time = Bool.random(using: &random) ? now + UInt64.random(in: 1...80, using: &random) : .max
        deadlines.set(entry.slot, to: time)
        model[name] = (entry.slot, time)
      case 3:
        guard let (name, entry) = model.randomElement(using: &random) else { continue }
        deadlines.remove(entry.slot)
        model[name] = nil
      default:
        now += UInt64.random(in: 0...20, using: &random)
        var called: Set<Int> = []
        while let target = deadlines.pop(now: now) { #expect(called.insert(target.name).inserted) }
        #expect(called == Set(model.filter { $0.value.time <= now }.keys))
        for name in called { model[name]?.time = .max }
        #expect(deadlines.next > now)
      }
    }
  }
}
