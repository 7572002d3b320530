@testable import TLS
import Testing

@Suite struct `Recently used` {
  @Test func `a full table drops what was not used for longest`() {
    var table = RecentlyUsed<String, Int>(limit: 2, inactive: 1000)
    table.keep(1, for: "a", at: 0, until: 500)
    table.keep(2, for: "b", at: 1, until: 500)
    #expect(table.valid("a", at: 2) == 1)
    table.keep(3, for: "c", at: 3, until: 500)
    #expect(table.valid("b", at: 4) == nil)
    #expect(table.valid("a", at: 4) == 1 && table.valid("c", at: 4) == 3 && table.count == 2)
  }

  @Test func `an entry is valid until its time, and is found until it was not used for long`() {
    var table = RecentlyUsed<String, Int>(limit: 2, inactive: 100)
    table.keep(1, for: "a", at: 0, until: 50)
    #expect(table.valid("a", at: 49) == 1)
    #expect(table.valid("a", at: 50) == nil)
    #expect(table.find("a", at: 140)?.value == 1)
    #expect(table.find("a", at: 240)?.value == nil)
    #expect(table.count == 0)
  }

  @Test func `a key that is kept again has its new value once`() {
    var table = RecentlyUsed<String, Int>(limit: 3, inactive: 1000)
    for value in 0..<10 { table.keep(value, for: "a", at: 0, until: 500) }
    #expect(table.count == 1 && table.valid("a", at: 1) == 9)
    table.remove("a")
    table.remove("a")
    #expect(table.count == 0 && table.valid("a", at: 1) == nil)
  }

  @Test func `it does as a list in the order of use does`() {
    var random = SystemRandomNumberGenerator()
    for _ in 0..<50 {
      var table = RecentlyUsed<Int, Int>(limit: 5, inactive: 30)
      /// Oldest first.
      var model: [(key: Int, value: Int, usedAt: UInt64)] = []
      var now: UInt64 = 0
      for step in 0..<400 {
        now += UInt64.random(in: 0...3, using: &random)
        let key = Int.random(in: 0..<9, using: &random)
        model.removeAll { now - $0.usedAt >= 30 }
        let place = model.firstIndex { $0.key == key }
        switch Int.random(in: 0..<5, using: &random) {
        case 0...1:
          table.keep(step, for: key, at: now, until: .max)
          if let place { model.remove(at: place) } else if model.count == 5 { model.removeFirst() }
          model.append((key, step, now))
        case 2...3:
          let found = table.find(key, at: now)?.value
          #expect(found == place.map { model[$0].value })
          if let place {
            var entry = model.remove(at: place)
            entry.usedAt = now
            model.append(entry)
          }
        default:
          table.remove(key)
          if let place { model.remove(at: place) }
        }
        #expect(table.find(-1, at: now)?.value == nil)
        #expect(table.count == model.count)
      }
    }
  }
}
