@testable import Features
@testable import Forward
import Testing
@testable import Traffic

@Suite struct LeakyBucketTests {
  private func bucket(_ excess: Int, at time: UInt64) -> LeakyBucket {
    var bucket = LeakyBucket()
    bucket.take(excess, now: time)
    return bucket
  }

  @Test func `the first request has no excess, and those at once after it have one each`() {
    var bucket = LeakyBucket()
    #expect(bucket.excess(now: 5, rate: 2000) == 0)
    bucket.take(0, now: 5)
    for expected in [1000, 2000, 3000] {
      #expect(bucket.excess(now: 5, rate: 2000) == expected)
      bucket.take(expected, now: 5)
    }
  }

  @Test func `the excess drains with the rate, in thousandths, rounded as nginx rounds`() {
    #expect(bucket(1000, at: 1000).excess(now: 1250, rate: 2000) == 1500)
    #expect(bucket(1000, at: 1000).excess(now: 1001, rate: 2000) == 1998)
    // One request a minute: 16 thousandths a second.
    #expect(bucket(0, at: 0).excess(now: 60_000, rate: 16) == 40)
    #expect(bucket(0, at: 0).excess(now: 62_500, rate: 16) == 0)
    #expect(bucket(0, at: 0).excess(now: 62, rate: 16) == 1000)
    #expect(bucket(0, at: 0).excess(now: 63, rate: 16) == 999)
  }

  @Test func `a clock a little behind counts as no time, and one far behind as a millisecond that sets the time anew`()
  {
    var near = bucket(1000, at: 100_000)
    #expect(near.excess(now: 40_000, rate: 1000) == 2000)
    near.take(2000, now: 40_000)
    #expect(near.last == 100_000)
    var far = bucket(1000, at: 100_000)
    #expect(far.excess(now: 39_999, rate: 1000) == 1999)
    far.take(1999, now: 39_999)
    #expect(far.last == 39_999)
  }

  @Test func `no clock, rate or excess overflows`() {
    for time in [0, 1, UInt64(Int64.max), UInt64(Int64.max) + 1, UInt64.max] {
      for rate in [16, 1000, Int.max] {
        for excess in [0, 1000, Int.max] {
          for last in [0, 1, UInt64(Int64.max), UInt64.max] {
            var bucket = bucket(excess, at: last)
            let sum = bucket.excess(now: time, rate: rate)
            #expect(sum >= 0)
            bucket.take(sum, now: time)
            _ = bucket.isStale(now: time, rate: rate)
            #expect(LeakyBucket.wait(excess: sum, free: 0, rate: rate) >= 0)
          }
        }
      }
    }
  }

  @Test func `the wait is what drains the excess above the free one`() {
    #expect(LeakyBucket.wait(excess: 1000, free: 0, rate: 2000) == 500)
    #expect(LeakyBucket.wait(excess: 1500, free: 1000, rate: 1000) == 500)
    #expect(LeakyBucket.wait(excess: 1000, free: 1000, rate: 1000) == 0)
    #expect(LeakyBucket.wait(excess: 5_000_000, free: Int.max, rate: 16) == 0)
    #expect(LeakyBucket.wait(excess: 1000, free: 0, rate: 16) == 62_500)
  }

  @Test(arguments: [16, 166, 1000, 7000, 1_000_000]) func `no more than rate times time and burst pass`(rate: Int) {
    var bucket = LeakyBucket()
    let burst = 5000
    var (passed, time) = (0, UInt64(1_000_000))
    for step in 0..<20_000 {
      time += [0, 0, 1, 3, 17, 250][step % 6]
      let excess = bucket.excess(now: time, rate: rate)
      guard excess <= burst else { continue }
      bucket.take(excess, now: time)
      passed += 1
    }
    let allowed = Int(time - 1_000_000) * rate / 1_000_000 + burst / 1000 + 1
    // Each of nginx's divisions drops up to a thousandth in the limit's favour.
    #expect(passed <= allowed)
    #expect(passed >= min(20_000, allowed) * 9 / 10)
  }
}

@Suite struct LimitZoneTests {
  private let one = Array("one".utf8), two = Array("two".utf8), three = Array("three".utf8)

  private func ask(_ states: inout RequestStates, _ key: [UInt8], _ now: UInt64 = 0, isLast: Bool = true)
    -> RequestStates.Answer
  { states.ask(key, rate: 1000, burst: 1000, now: now, isLast: isLast) }

  @Test func `each key has its own excess`() {
    var states = RequestStates(size: 65_536)
    #expect(ask(&states, one) == .counted(excess: 0))
    #expect(ask(&states, one) == .counted(excess: 1000))
    #expect(ask(&states, one) == .refused(excess: 2000))
    #expect(ask(&states, two) == .counted(excess: 0))
    #expect(ask(&states, one, 1000) == .counted(excess: 1000))
  }

  @Test func `a full zone forgets the key that was used least recently`() {
    var states = RequestStates(size: 2 * RequestStates.bytes(ofKey: 5))
    _ = ask(&states, one)
    _ = ask(&states, two)
    // A refused request is a use, too.
    _ = ask(&states, one)
    #expect(ask(&states, one) == .refused(excess: 2000))
    #expect(ask(&states, three) == .counted(excess: 0))
    #expect(states.count == 2)
    #expect(ask(&states, one) == .refused(excess: 2000))
    #expect(ask(&states, two) == .counted(excess: 0))
  }

  @Test func `the memory stays within the zone's size, whatever the keys`() {
    var states = RequestStates(size: 65_536)
    for index in 0..<20_000 {
      _ = ask(&states, Array(repeating: UInt8(truncatingIfNeeded: index), count: index % 3000) + Array("\(index)".utf8))
      #expect(states.usedBytes <= states.size)
    }
    #expect(states.count > 10)
    let longer = [UInt8](repeating: 1, count: 65_536)
    #expect(ask(&states, longer) == .full)
  }

  @Test func `a state that another limit still needs is not forgotten, and counts only when settled`() throws {
    var states = RequestStates(size: RequestStates.bytes(ofKey: 3))
    guard case .reserved(let first) = ask(&states, one, isLast: false) else { throw Unexpected() }
    #expect(ask(&states, two) == .full)
    states.release(first)
    #expect(ask(&states, two) == .counted(excess: 0))
    guard case .reserved(let second) = ask(&states, two, isLast: false) else { throw Unexpected() }
    #expect(states.settle(second, rate: 1000, now: 0) == 1000)
    #expect(ask(&states, two) == .refused(excess: 2000))
  }

  private struct Unexpected: Error {}

  @Test func `states without excess leave after a minute`() {
    var states = RequestStates(size: 1 << 20)
    for index in 0..<10 { _ = ask(&states, Array("\(index)".utf8), 1000) }
    _ = ask(&states, one, 60_999)
    #expect(states.count == 11)
    _ = ask(&states, two, 61_000)
    #expect(states.count == 10)
  }

  @Test func `a zone of the same name, key and size is the same object, and ends with its last user`() {
    let zones = RequestZones(SharedState(features: Features.all))
    func settings(_ size: Int, _ spelling: String = "$host") -> LimitZoneSettings {
      LimitZoneSettings(name: "z", spelling: spelling, key: Template([]), size: size)
    }
    var zone: RequestZone? = zones.zone(settings(65_536))
    #expect(zone === zones.zone(settings(65_536)))
    #expect(zone !== zones.zone(settings(65_537)))
    #expect(zone !== zones.zone(settings(65_536, "$uri")))
    weak let old = zone
    zone = nil
    #expect(old == nil)
  }
}

@Suite struct LimitStepTests {
  private static let zones =
    "limit_req_zone $arg_k zone=r:1m rate=1r/m; limit_conn_zone $arg_k zone=c:1m; upstream u { server 127.0.0.1:9; } "

  @Test func `an internal redirect does not count a request twice, and connections are released at the end`() throws {
    let rig = try Rig(
      Self.zones + """
        server { listen 80; error_page 503 /busy;
          location / { limit_req zone=r; limit_conn c 1; proxy_pass http://u; }
          location /busy { limit_req zone=r burst=5; proxy_pass http://u; } }
        """)
    let first = try rig.ask("GET /?k=a HTTP/1.1", "Host: h")
    #expect(rig.upstreams.count == 1)
    let second = try rig.ask("GET /?k=a HTTP/1.1", "Host: h")
    // The error page was asked at the upstream: the redirect isn't judged again.
    #expect(rig.upstreams.count == 2)
    let exchange = try #require(second.exchange)
    #expect(exchange.states.known(RequestLimitState.self)?.verdict == .rejected)
    first.exchange?.clientDidLeave()
    #expect(exchange.states.known(ConnectionLimitState.self)?.verdict == nil)
  }

  @Test func `an empty key is not limited, and neither is one above nginx's bounds`() throws {
    let rig = try Rig(
      Self.zones + "server { listen 80; location / { limit_req zone=r; limit_conn c 1; proxy_pass http://u; } }")
    var streams: [MemoryStream] = []
    for _ in 0..<3 { streams.append(try rig.ask("GET / HTTP/1.1", "Host: h")) }
    #expect(rig.upstreams.count == 3)
    #expect(streams.allSatisfy { $0.exchange?.states.known(RequestLimitState.self)?.verdict == nil })
  }
}
