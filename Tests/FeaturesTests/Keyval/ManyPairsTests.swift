import Bytes
@testable import Features
@testable import Forward
import Glibc
import TestSupport
import Testing
@testable import Traffic
import Transport

/// A zone can have a hundred thousand pairs. No worker waits for all of them.
@Suite struct `A keyval zone of many pairs` {
  private static func text(_ number: Int) -> [UInt8] { Array("\(number)".utf8) }

  private static func fill(_ zone: KeyvalZone, _ count: Int, timeout: Int? = nil) {
    for number in 0..<count {
      #expect(zone.set(text(number), to: text(number), isNew: true, timeout: timeout, now: 0) == .done)
    }
  }

  @Test(arguments: [KeyvalMatching.string, .prefix]) func `has each of them, in order`(matching: KeyvalMatching) {
    let zone = KeyvalZone(size: 1 << 24, matching: matching)
    Self.fill(zone, 3000)
    let keys = zone.all(now: 0).map(\.key)
    #expect(keys.count == 3000 && keys == keys.sorted { $0.lexicographicallyPrecedes($1) })
    #expect(zone.value(of: Self.text(2999), now: 0) == Self.text(2999))
    for number in 0..<3000 where number % 2 == 0 { #expect(zone.remove(Self.text(number), now: 0) == .done) }
    #expect(zone.count == 1500 && zone.all(now: 0).count == 1500)
  }

  @Test func `forgets pairs that end together in parts, and all of them where room is wanted`() {
    let zone = KeyvalZone(size: 1000 * 200)
    Self.fill(zone, 1000, timeout: 500)
    #expect(zone.all(now: 500).isEmpty && zone.value(of: Self.text(1), now: 500) == nil)
    let before = zone.count
    #expect(zone.remove([1], now: 2000) == .absent)
    #expect(before == 1000 && zone.count > 0 && zone.count < 1000)
    while zone.count > 0 {
      let count = zone.count
      _ = zone.remove([1], now: 2000)
      #expect(zone.count < count)
    }
    Self.fill(zone, 1000, timeout: 500)
    let large = [UInt8](repeating: 1, count: 8000)
    #expect(zone.set([1], to: large, isNew: true, timeout: nil, now: 499) == .full)
    #expect(zone.set([1], to: large, isNew: true, timeout: nil, now: 500) == .done && zone.count == 1)
  }

  @Test(arguments: [1001, 1_000_000]) func `forgets pairs that end one after the other, after any time`(later: Int) {
    let zone = KeyvalZone(size: 1000 * 200)
    for number in 0..<1000 {
      let end = (number + 1) * 1000
      #expect(zone.set(Self.text(number), to: [], isNew: true, timeout: end, now: 0) == .done)
    }
    _ = zone.remove([1], now: 501 * 1000)
    #expect(zone.count == 936)
    while zone.count > 0 {
      let count = zone.count
      _ = zone.remove([1], now: UInt64(later) * 1000)
      #expect(zone.count == max(0, count - 64))
    }
  }

  @Test func `takes another end and another value in place of the former ones`() {
    let zone = KeyvalZone(size: 1000)
    #expect(zone.set([1], to: [1], isNew: true, timeout: 1000, now: 0) == .done)
    #expect(zone.set([1], to: [2], isNew: false, timeout: 9000, now: 500) == .done)
    _ = zone.remove([9], now: 5000)
    #expect(zone.value(of: [1], now: 5000) == [2] && zone.value(of: [1], now: 9500) == nil)
    #expect(zone.set([1], to: [3], isNew: true, timeout: nil, now: 9500) == .done)
    _ = zone.remove([9], now: 60_000)
    #expect(zone.value(of: [1], now: 60_000) == [3])
  }

  @Test func `is written once for changes that came before the write`() throws {
    struct Full: Error {}
    let zone = KeyvalZone(size: 100_000)
    var writes = 0
    Self.fill(zone, 10)
    let last = zone.changes
    #expect(throws: Full.self) { try zone.keep(last) { () throws(Full) in throw Full() } }
    for change in 1...last { zone.keep(change) { writes += 1 } }
    #expect(writes == 1)
    _ = zone.set([1], to: [], isNew: true, timeout: nil, now: 0)
    zone.keep(zone.changes) { writes += 1 }
    zone.keep(last) { writes += 1 }
    #expect(writes == 2)
  }

  @Test func `is told beside the loop, and in pieces`() async throws {
    let rig = try Rig(
      """
      keyval_zone zone=many:16m; keyval $arg_k $v zone=many;
      server { listen 80; location /api { api; } }
      """)
    let zone = try #require(rig.live.keyvals.first).zone, pool = rig.worker.shared.pool, held = Flag()
    Self.fill(zone, 20_000)
    for lane in 0..<BlockingWork.stateFiles.limits.lanes { _ = pool.run(.stateFiles, for: "\(lane)") { held.wait() } }
    defer { held.raise() }
    func ask(_ path: String) throws -> MemoryStream {
      try rig.ask("GET /api/9/http/keyvals\(path) HTTP/1.1", "Host: h")
    }
    #expect(try ask("/many?key=7").body == "{\"7\":\"7\"}\n")
    let clients = try ["/many", "/"].map { try ask($0) }
    #expect(clients.allSatisfy { $0.status == nil })
    held.raise()
    var steps = Set<Int>()
    for _ in 0..<10_000 where !clients.allSatisfy(\.hasEnded) {
      rig.loop.wakeUp()
      rig.loop.cork.flush()
      steps.insert(clients[0].body.utf8.count)
      try await Task.sleep(for: .milliseconds(1))
    }
    #expect(clients.allSatisfy { $0.status == 200 && $0.isReleased } && steps.count > 3)
    let text = clients[0].body
    #expect(text.hasPrefix("{\"0\":\"0\",\"1\":\"1\",\"10\":\"10\",") && text.hasSuffix(",\"9999\":\"9999\"}\n"))
    #expect(clients[1].body == "{\"many\":\(text.dropLast())}\n")
  }
}
