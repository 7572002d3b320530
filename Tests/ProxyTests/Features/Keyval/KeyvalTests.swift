import ConfigurationSupport
import Testing

@testable import Proxy

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

  @Test(arguments: [
    ("keyval_zone zone=a:1k;", "too small"), ("keyval_zone timeout=1h;", "must have \"zone\""),
    ("keyval_zone zone=a:32k type=ip;", "are not supported"), ("keyval_zone zone=a:32k state=f;", "are not supported"),
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
