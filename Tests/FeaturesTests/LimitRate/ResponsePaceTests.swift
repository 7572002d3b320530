@testable import Features
@testable import Forward
import Testing
@testable import Traffic

@Suite struct ResponsePaceTests {
  @Test(arguments: [1, 100, 4096, 1_000_000]) func `no more bytes go than each second that has begun allows`(rate: Int)
  {
    var pace = ResponsePace(rate: rate, free: 300, start: 5000)
    var (now, sent) = (UInt64(5000), 0)
    while now < 15_000 {
      let count = min(pace.allowed(now: now), 700)
      #expect(sent + count <= rate * (Int(now - 5000) / 1000 + 1) + 300)
      if count > 0 {
        pace.didSend(count, now: now)
        sent += count
      } else {
        #expect(pace.wait(now: now) >= 1)
      }
      now += UInt64(count > 0 ? 1 : min(pace.wait(now: now), 20_000))
    }
    #expect(sent >= min(rate * 8, 700 * 8))
  }

  @Test func `no clock, rate or size overflows`() {
    for start in [0, 5, UInt64.max] {
      for now in [0, UInt64.max / 2, UInt64.max] {
        for rate in [0, 1, Int.max] {
          var pace = ResponsePace(rate: rate, free: Int.max, start: start)
          #expect(pace.allowed(now: now) >= 0)
          pace.didSend(Int.max, now: now)
          pace.didSend(Int.max, now: now)
          #expect(pace.allowed(now: now) >= 0 && pace.wait(now: now) >= 1)
        }
      }
    }
  }

  @Test func `sizes are nginx's`() {
    func size(_ text: String) -> Int? { SizeText.size(Array(text.utf8)) }
    #expect([size("0"), size("7"), size("2k"), size("2K"), size("3m")] == [0, 7, 2048, 2048, 3 << 20])
    for text in ["", "k", "-1", "1g", "1 k", "1.5k", "9223372036854775808", "9223372036854775807k"] {
      #expect(size(text) == nil, "\(text)")
    }
  }
}
