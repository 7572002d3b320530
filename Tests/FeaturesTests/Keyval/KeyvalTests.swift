import ConfigurationSupport
@testable import Features
@testable import Forward
import Observability
import TestSupport
import Testing
@testable import Traffic

@Suite struct `keyval and its zones` {
  @Test func `pairs end by their time, and a zone holds what fits`() {
    let zone = KeyvalZone(size: 1000)
    #expect(zone.set([1], to: [2], isNew: true, timeout: 10, now: 5) == .done)
    #expect(zone.set([1], to: [3], isNew: true, timeout: nil, now: 14) == .exists)
    #expect(zone.value(of: [1], now: 14) == [2] && zone.value(of: [1], now: 15) == nil)
    #expect(zone.set([1], to: [3], isNew: false, timeout: nil, now: 15) == .absent)
    #expect(zone.set([1], to: [UInt8](repeating: 0, count: 900), isNew: true, timeout: nil, now: 15) == .full)
    #expect(zone.set([1], to: [UInt8](repeating: 0, count: 700), isNew: true, timeout: nil, now: 15) == .done)
    #expect(zone.set([2], to: [], isNew: true, timeout: nil, now: 15) == .full)
    // What takes its own place needs no other.
    #expect(zone.set([1], to: [UInt8](repeating: 1, count: 800), isNew: false, timeout: nil, now: 15) == .done)
    #expect(zone.remove([1], now: 15) == .done && zone.remove([1], now: 15) == .absent && zone.all(now: 15).isEmpty)
    #expect(zone.set([2], to: [], isNew: true, timeout: nil, now: 15) == .done)
  }

  @Test func `with type=ip the smallest network counts, and an address in none finds nothing`() {
    let zone = KeyvalZone(size: 100_000, matching: .ip)
    func set(_ key: String, _ value: String, timeout: Int? = nil) -> KeyvalZone.Change {
      zone.set(Array(key.utf8), to: Array(value.utf8), isNew: true, timeout: timeout, now: 0)
    }
    func find(_ key: String, now: UInt64 = 0) -> String? {
      zone.value(of: Array(key.utf8), now: now).map { String(decoding: $0, as: UTF8.self) }
    }
    for (key, value) in [
      ("10.0.0.0/8", "wide"), ("10.1.0.0/16", "narrow"), ("10.1.2.3", "one"), ("2001:db8::/32", "six"),
      ("::/0", "any6"),
    ] { #expect(set(key, value) == .done) }
    #expect(set("10.1.9.9/16", "again") == .exists, "the same network, spelled otherwise")
    #expect(set("host", "x") == .malformed && set("10.0.0.0/33", "x") == .malformed)
    #expect(find("10.1.2.3") == "one" && find("10.1.2.4") == "narrow" && find("10.9.9.9") == "wide")
    #expect(find("11.0.0.1") == nil && find("2001:db8::7") == "six" && find("2001:db9::7") == "any6")
    // A network is looked up as a whole.
    #expect(find("10.1.2.0/24") == "narrow" && find("10.0.0.0/7") == nil && find("") == nil && find("x") == nil)
    #expect(set("10.1.2.0/24", "short", timeout: 10) == .done && find("10.1.2.4") == "short")
    #expect(find("10.1.2.4", now: 10) == "narrow", "one whose time is over hides no other")
    #expect(zone.remove(Array("10.1.2.3".utf8), now: 10) == .done && find("10.1.2.3", now: 10) == "narrow")
    zone.removeAll()
    #expect(find("10.1.2.3") == nil && set("10.1.2.3", "new") == .done && find("10.1.2.3") == "new")
  }

  @Test func `with type=prefix the longest key with which the text begins counts`() {
    let zone = KeyvalZone(size: 100_000, matching: .prefix)
    for (key, value) in [("/a", "1"), ("/a/b", "2"), ("/c", "3")] {
      #expect(zone.set(Array(key.utf8), to: Array(value.utf8), isNew: true, timeout: nil, now: 0) == .done)
    }
    func find(_ key: String) -> String? {
      zone.value(of: Array(key.utf8), now: 0).map { String(decoding: $0, as: UTF8.self) }
    }
    #expect(find("/a/b/c") == "2" && find("/a/x") == "1" && find("/c") == "3")
    #expect(find("/") == nil && find("") == nil && find("a") == nil)
  }

  @Test func `with type=ip, an IPv4 client of a dual-stack socket is found, and a pair may be spelt so`() {
    let zone = KeyvalZone(size: 100_000, matching: .ip)
    func set(_ key: String, _ value: String) -> KeyvalZone.Change {
      zone.set(Array(key.utf8), to: Array(value.utf8), isNew: true, timeout: nil, now: 0)
    }
    func find(_ key: String) -> String? {
      zone.value(of: Array(key.utf8), now: 0).map { String(decoding: $0, as: UTF8.self) }
    }
    #expect(set("10.0.0.0/8", "ten") == .done && set("192.0.2.1", "one") == .done && set("::/0", "six") == .done)
    for (key, value) in [
      ("::ffff:10.1.2.3", "ten"), ("10.1.2.3", "ten"), ("::ffff:192.0.2.1", "one"), ("::ffff:192.0.2.2", nil),
      ("192.0.2.2", nil), ("2001:db8::1", "six"),
    ] as [(String, String?)] { #expect(find(key) == value, "\(key)") }
    #expect(set("::ffff:192.0.2.1", "again") == .exists)
    #expect(set("::ffff:198.51.100.0/120", "net") == .done && find("198.51.100.7") == "net")
  }

  private static func part(_ pairs: (key: String, value: String, life: Int?)...) -> [SharedKeyvalPart.Pair] {
    pairs.map { SharedKeyvalPart.Pair(key: Array($0.key.utf8), value: Array($0.value.utf8), life: $0.life) }
  }

  @Test func `what a store has takes the place of all pairs at once, as far as it fits`() {
    let zone = KeyvalZone(size: 100_000)
    _ = zone.set([1], to: [2], isNew: true, timeout: nil, now: 0)
    var filling = zone.filling()
    for pair in Self.part(("b", "B:x", nil), ("a", "A", 500), ("b", "again", nil)) { filling.add(pair, now: 10) }
    #expect(zone.all(now: 10).map(\.key) == [[1]], "not before the last piece")
    #expect(zone.replace(filling) && !filling.isFull)
    #expect(zone.all(now: 10).map { String(decoding: $0.value, as: UTF8.self) } == ["A", "again"])
    #expect(zone.pair([0x61], now: 509) != nil && zone.pair([0x61], now: 510) == nil)
    let small = KeyvalZone(size: 200)
    var tight = small.filling()
    for pair in Self.part(("b", "B", nil), ("a", "A", nil)) { tight.add(pair, now: 10) }
    #expect(tight.isFull && small.replace(tight) && small.all(now: 10).map(\.key) == [[0x62]])
    let networks = KeyvalZone(size: 100_000, matching: .ip)
    var addresses = networks.filling()
    for pair in Self.part(("10.0.0.0/8", "ten", nil), ("host", "x", nil)) { addresses.add(pair, now: 10) }
    #expect(networks.replace(addresses) && networks.all(now: 10).count == 1)
    #expect(networks.value(of: Array("10.1.1.1".utf8), now: 10) == Array("ten".utf8))
  }

  @Test func `a change of this process is not undone by pieces that were read before it`() {
    let zone = KeyvalZone(size: 100_000)
    var filling = zone.filling()
    filling.add(Self.part(("a", "old", nil))[0], now: 0)
    var change = SharedKeyvalChange(kind: .set)
    (change.key, change.value) = ([0x61], Array("new".utf8))
    zone.apply(change, now: 0)
    #expect(!zone.replace(filling) && zone.pair([0x61], now: 0) == Array("new".utf8))
    var again = zone.filling()
    again.add(Self.part(("a", "new", nil))[0], now: 0)
    #expect(zone.replace(again))
    zone.apply(SharedKeyvalChange(kind: .clear), now: 0)
    #expect(!zone.replace(again) && zone.all(now: 0).isEmpty)
    #expect(zone.replace(again, always: true) && zone.all(now: 0).count == 1)
  }

  @Test func `a state keeps pairs and the ends of their times, and what is none is refused`() throws {
    let scene = try Scene(), now: UInt64 = 5000
    defer { scene.end() }
    let state = KeyvalState(path: scene.path("pairs")), zone = KeyvalZone(size: 100_000)
    #expect(try state.read().get().isEmpty, "there is no file yet")
    _ = zone.set(Array("a\"\u{E9}".utf8), to: Array("1".utf8), isNew: true, timeout: nil, now: now)
    _ = zone.set(Array("b".utf8), to: [], isNew: true, timeout: 3_600_000, now: now)
    try state.write(zone, now: now)
    let again = KeyvalZone(size: 100_000)
    let kept = try state.read().get()
    #expect(again.take(kept, now: 0) == 0)
    #expect(again.all(now: 0).map(\.key) == zone.all(now: now).map(\.key))
    #expect(again.pair([0x62], now: 3_590_000) == [] && again.pair([0x62], now: 3_610_000) == nil)
    for text in [
      "", "[]", "{\"a\":1}", "{\"a\":{\"until\":1}}", "{\"a\":{\"value\":\"x\",\"until\":\"y\"}}", "{\"\":\"x\"}",
    ] {
      #expect(throws: KeyvalState.Fault.self, "\(text)") { try KeyvalState.pairs(Array(text.utf8)) }
    }
    let past = try KeyvalState.pairs(Array("{\"a\":{\"value\":\"x\",\"until\":-9223372036854775808}}".utf8))
    #expect(again.take(past, now: 0) == 0)
    #expect(again.pair([0x61], now: 0) == nil)
  }

  @Test(arguments: ["", "{", "{\"a\":\"b\"", "[]", "\0\0\0", "{\"a\":1}", "server 127.0.0.1:80;"])
  func `a damaged state costs its zone the pairs, and stops no start`(text: String) throws {
    let scene = try Scene()
    defer { scene.end() }
    try scene.write("pairs", text: text)
    let long = (1...5).map { ",\"long\($0)\":\"\(String(repeating: "x", count: 8000))\"" }.joined()
    try scene.write("good", text: "{\"c\":\"d\"\(long)}")
    let loaded = LoadedText.http(
      """
      keyval_zone zone=a:32k state=\(scene.path("pairs")); keyval_zone zone=b:1m state=\(scene.path("good"));
      keyval_zone zone=c:32k state=\(scene.path("good"));
      """)
    let http = try #require(loaded.settings?.http)
    let zones = KeyvalZones(SharedState(features: Features.all))
    let (kept, damaged, found) = zones.prepared(http.keyvalZones, now: 0)
    #expect(damaged == [scene.path("pairs")] && found.count == 2)
    #expect(found.allSatisfy { $0.severity == .warning }, "\(found)")
    #expect(found[0].message.contains("pairs\", the state of keyval_zone \"a\", is damaged"))
    #expect(found[1].message.contains("keyval_zone \"c\" can't take 2 of the 6 pairs"))
    #expect(http.keyvalZones.map { zones.zone($0).all(now: 0).count } == [0, 6, 4])
    // It is no file without pairs, so nothing replaces it before it has another name.
    #expect(scene.text("pairs") == text)
    withExtendedLifetime(kept) {}
  }

  @Test(arguments: [
    ("keyval_zone zone=a:1k;", "too small"), ("keyval_zone timeout=1h;", "must have \"zone\""),
    ("keyval_zone zone=a:32k type=list;", "invalid parameter"), ("keyval_zone zone=a:32k sync;", "invalid parameter"),
    ("keyval_zone zone=a:32k store=x;", "which no \"shared_store\" declares"),
    ("keyval_zone zone=a:32k fail=open;", "invalid parameter"),
    ("shared_store s redis://127.0.0.1; keyval_zone zone=a:32k store=s state=/f;", "beside \"store\""),
    ("keyval_zone zone=a:32k state=;", "invalid parameter"),
    ("keyval_zone zone=a:32k; keyval_zone zone=a:32k;", "duplicate keyval_zone"),
    ("keyval $host $v zone=a;", "which no \"keyval_zone\" declares"),
    ("keyval_zone zone=a:32k; keyval $host $v size=a;", "invalid parameter"),
    ("keyval_zone zone=a:32k; keyval $host v zone=a;", "invalid variable name"),
    ("keyval_zone zone=a:32k; keyval $v $v zone=a;", "cycle while evaluating"),
  ])
  func `a keyval that can't be is refused`(lines: String, words: String) {
    let loaded = LoadedText.http(lines)
    #expect(loaded.settings == nil && loaded.errors.contains { $0.contains(words) }, "\(loaded.errors)")
  }
}
