import Testing

@testable import Bytes

@Suite struct LRUTableTests {
  private func keys(_ table: LRUTable<String, Int>) -> [String] { table.all.map(\.key) }

  @Test func `the entry used least recently leaves first`() throws {
    var table = LRUTable<String, Int>()
    for (value, key) in ["a", "b", "c"].enumerated() { table.insert(value, for: key) }
    table.use(try #require(table.place(of: "a")))
    #expect(keys(table) == ["b", "c", "a"])
    guard case .made(let left) = table.makeRoom(limit: 3) else { return #expect(Bool(false), "nothing left") }
    #expect(left == 1 && keys(table) == ["c", "a"])
    guard case .free = table.makeRoom(limit: 3) else { return #expect(Bool(false), "there was room") }
    // A new value for a known key is a use.
    table.insert(7, for: "c")
    #expect(keys(table) == ["a", "c"] && table.count == 2)
  }

  @Test func `an entry that may not leave stays, and the next one leaves`() {
    var table = LRUTable<String, Int>()
    for (value, key) in ["a", "b", "c"].enumerated() { table.insert(value, for: key) }
    guard case .made(1) = table.makeRoom(limit: 3, where: { $0 > 0 }) else {
      return #expect(Bool(false), "another one left")
    }
    guard case .none = table.makeRoom(limit: 2, where: { $0 > 2 }) else { return #expect(Bool(false), "one left") }
    #expect(keys(table) == ["a", "c"])
  }

  @Test func `a value is freed when its entry is removed, and its place holds nothing`() throws {
    final class Secret {}
    var table = LRUTable<Int, Secret>()
    weak var secret: Secret?
    let place = {
      let made = Secret()
      secret = made
      return table.insert(made, for: 1)
    }()
    #expect(secret != nil)
    table.remove(place)
    #expect(secret == nil && table[place] == nil && table.isEmpty)
    // A value that is set there would stand in no order.
    table[place] = Secret()
    #expect(table[place] == nil && table.oldest == nil)
    table.remove(place)
    table.insert(Secret(), for: 2)
    #expect(table.count == 1 && table.all.map(\.key) == [2])
    table[place] = nil
    #expect(table.count == 1 && table[place] != nil)
  }

  @Test func `does what a list in the order of use does`() {
    var random = SystemRandomNumberGenerator()
    var table = LRUTable<Int, Int>()
    var list: [(key: Int, value: Int)] = []
    for step in 0..<20_000 {
      let key = Int.random(in: 0..<12, using: &random)
      switch Int.random(in: 0..<5, using: &random) {
      case 0, 1:
        list.removeAll { $0.key == key }
        list.append((key, step))
        table.insert(step, for: key)
      case 2:
        if let place = table.place(of: key) { table.use(place) }
        if let index = list.firstIndex(where: { $0.key == key }) { list.append(list.remove(at: index)) }
      case 3:
        let removed = table.remove(key)
        #expect(removed == list.first { $0.key == key }?.value)
        list.removeAll { $0.key == key }
      default:
        let limit = Int.random(in: 1...12, using: &random)
        if list.count >= limit, let index = list.firstIndex(where: { $0.value.isMultiple(of: 2) }) {
          list.remove(at: index)
        }
        _ = table.makeRoom(limit: limit) { $0.isMultiple(of: 2) }
      }
      guard table.all.map(\.key) == list.map(\.key), table.all.map(\.value) == list.map(\.value),
        table.count == list.count
      else { return #expect(Bool(false), "they differ after step \(step)") }
    }
  }
}
