import HTTP
import Testing

@Suite struct `Bounds of HTTP 2` {
  /// How many frames of a kind a fresh connection may send at once.
  private func burst(
    _ kind: HTTP2FrameKind, length: Int = 0, endsStream: Bool = false, now: UInt64 = 1000
  ) -> (Int, HTTP2Limit?) {
    var bounds = HTTP2Bounds(), count = 0
    while count < 20_000 {
      if let limit = bounds.take(kind, length: length, endsStream: endsStream, now: now) { return (count, limit) }
      count += 1
    }
    return (count, nil)
  }

  @Test(
    arguments: [
      (.ping, 200, .pings), (.settings, 50, .settings), (.priority, 1000, .priorities), (.reset, 1000, .resets),
      (.windowUpdate, 5000, .windowUpdates), (.data, 100, .emptyData), (.other, 500, .unknownFrames),
      (.goAway, 500, .unknownFrames), (.continuation, 7, .continuations),
    ] as [(HTTP2FrameKind, Int, HTTP2Limit)])
  func `each kind of frame has its burst and its limit`(kind: HTTP2FrameKind, count: Int, limit: HTTP2Limit) {
    #expect(burst(kind) == (count, limit))
    // A clock that has not begun, or that is at its end, changes nothing.
    #expect(burst(kind, now: 0) == (count, limit) && burst(kind, now: .max) == (count, limit))
  }

  @Test func `frames with a request's bytes have no limit`() {
    #expect(burst(.data, length: 1) == (20_000, nil))
    #expect(burst(.data, endsStream: true) == (20_000, nil))
    #expect(burst(.headers) == (20_000, nil))
  }

  @Test(arguments: [(.ping, 10), (.settings, 2), (.reset, 50), (.windowUpdate, 200)] as [(HTTP2FrameKind, Int)])
  func `a budget fills again at its rate, and never beyond its burst`(kind: HTTP2FrameKind, rate: Int) {
    var bounds = HTTP2Bounds()
    func take(_ now: UInt64) -> Bool { bounds.take(kind, length: 0, endsStream: false, now: now) == nil }
    func takeAll(_ now: UInt64) -> Int {
      var count = 0
      while take(now) { count += 1 }
      return count
    }
    let burst = takeAll(1000)
    // The frame that was too many counts, too.
    #expect(takeAll(2000) == rate - 1)
    #expect(takeAll(1_000_000_000) == burst)
    // A clock that stands still or goes back fills nothing.
    #expect(takeAll(1_000_000_000) == 0 && takeAll(1) == 0)
    #expect(takeAll(.max) == burst)
  }

  @Test func `a client at the rate of a budget is never cut off`() {
    var bounds = HTTP2Bounds()
    for second in 0..<10_000 as Range<UInt64> {
      for ping in 0..<10 as Range<UInt64> {
        #expect(bounds.take(.ping, length: 8, endsStream: false, now: second * 1000 + ping * 100) == nil)
      }
    }
  }

  @Test func `CONTINUATION frames count for one block`() {
    var bounds = HTTP2Bounds()
    for _ in 0..<1000 {
      #expect(bounds.take(.headers, length: 10, endsStream: false, now: 0) == nil)
      for _ in 0..<7 { #expect(bounds.take(.continuation, length: 10, endsStream: false, now: 0) == nil) }
    }
    #expect(bounds.take(.continuation, length: 10, endsStream: false, now: 0) == .continuations)
  }

  @Test func `DATA to the client pays for its WINDOW_UPDATE frames, and cut DATA has a budget`() {
    var bounds = HTTP2Bounds()
    for _ in 0..<20_000 {
      #expect(bounds.didSend(isCut: false, now: 0) == nil)
      for _ in 0..<4 { #expect(bounds.take(.windowUpdate, length: 4, endsStream: false, now: 0) == nil) }
    }
    for _ in 0..<500 { #expect(bounds.didSend(isCut: true, now: 0) == nil) }
    #expect(bounds.didSend(isCut: true, now: 0) == .smallWindows)
  }

  @Test func `a stream that we reset counts like one that the client resets`() {
    var bounds = HTTP2Bounds()
    for _ in 0..<500 {
      #expect(bounds.takeReset(now: 0) == nil)
      #expect(bounds.take(.reset, length: 4, endsStream: false, now: 0) == nil)
    }
    #expect(bounds.takeReset(now: 0) == .resets)
  }

  @Test func `a client whose streams are reset again and again is read slowly, until it stops`() {
    var bounds = HTTP2Bounds()
    for _ in 0..<50 { _ = bounds.takeReset(now: 0) }
    #expect(!bounds.isStrained(now: 0))
    _ = bounds.takeReset(now: 0)
    #expect(bounds.isStrained(now: 0) && bounds.isStrained(now: 19) && !bounds.isStrained(now: 20))
    #expect(!bounds.isStrained(now: .max))
  }

  @Test func `a client that sends large heads without end is read slowly, and never cut off`() {
    var bounds = HTTP2Bounds()
    for _ in 0..<10_000 { bounds.didDecode(8192, now: 0) }
    #expect(!bounds.isStrained(now: 0))
    for _ in 0..<200 { bounds.didDecode(8193, now: 0) }
    #expect(!bounds.isStrained(now: 0))
    for _ in 0..<1_000_000 { bounds.didDecode(.max, now: 0) }
    // However many there were, their effect is over soon.
    #expect(bounds.isStrained(now: 1000) && !bounds.isStrained(now: 1020))
  }

  @Test(arguments: [(0, 4096), (1, 4080), (16_384, 63)])
  func `frames on streams that are over cost their bytes, and as much as a short frame at least`(
    length: Int, count: Int
  ) {
    var bounds = HTTP2Bounds()
    for _ in 0..<count { #expect(bounds.takeUnwanted(length: length, now: 0) == nil) }
    #expect(bounds.takeUnwanted(length: length, now: 0) == .unwantedFrames)
    #expect(bounds.takeUnwanted(length: length, now: .max) == nil)
  }

  @Test func `what was on its way when a stream was given up counts for nobody`() {
    var bounds = HTTP2Bounds()
    for _ in 0..<10_000 {
      bounds.didGiveUp(window: 65_535)
      for _ in 0..<3 { #expect(bounds.takeUnwanted(length: 16_384, now: 0) == nil) }
    }
    // No more than a connection's window is on its way, however many streams end.
    for _ in 0..<10_000 { bounds.didGiveUp(window: .max) }
    var taken = 0
    while bounds.takeUnwanted(length: 16_384, now: 0) == nil { taken += 16_384 }
    #expect(taken < 6 << 20)
    bounds.didGiveUp(window: -1)
    #expect(bounds.takeUnwanted(length: .min, now: 0) == .unwantedFrames)
  }

  @Test func `each limit has a sentence and a name of its own`() {
    let all = HTTP2Limit.allCases
    #expect(Set(all.map { "\($0.reason)" }).count == all.count && Set(all.map(\.rawValue)).count == all.count)
  }
}
