import Traffic

/// How many bytes of a response may go now: `limit_rate` with nginx's arithmetic, as a value. All of it saturates.
struct ResponsePace: Equatable {
  /// Bytes per second, above 0.
  let rate: Int
  /// Bytes that go at full speed (`limit_rate_after`).
  let free: Int
  /// When the request began, in milliseconds.
  let start: UInt64
  private(set) var sent = 0
  /// When more bytes may go: after a piece, the time that the piece takes at this rate.
  private(set) var next: UInt64 = 0

  init(rate: Int, free: Int, start: UInt64) {
    self.rate = max(1, rate)
    self.free = max(0, free)
    self.start = start
  }

  /// Bytes that may go now; 0 until `wait` has passed.
  func allowed(now: UInt64) -> Int {
    guard now >= next else { return 0 }
    // As in nginx, each second that has begun allows one rate more.
    let seconds = Int(clamping: (now < start ? 0 : now - start) / 1000) + 1
    let (product, overflow) = rate.multipliedReportingOverflow(by: seconds)
    let (sum, overflowOfSum) = (overflow ? Int.max : product).addingReportingOverflow(free)
    return max(0, (overflowOfSum ? Int.max : sum) - sent)
  }

  mutating func didSend(_ count: Int, now: UInt64) {
    let before = max(0, sent - free)
    let (sum, overflow) = sent.addingReportingOverflow(max(0, count))
    sent = overflow ? Int.max : sum
    next = now &+ UInt64(clamping: milliseconds(of: max(0, sent - free) - before))
  }

  /// Milliseconds until more bytes may go, at least 1.
  func wait(now: UInt64) -> Int {
    if now < next { return Int(clamping: next - now) }
    let allowed = allowed(now: now)
    guard allowed == 0 else { return 1 }
    // The rest of this second; the next one allows more.
    let passed = now < start ? 0 : (now - start) % 1000
    return Int(clamping: 1000 - passed)
  }

  private func milliseconds(of count: Int) -> Int {
    let (product, overflow) = count.multipliedReportingOverflow(by: 1000)
    return (overflow ? Int.max : product) / rate
  }
}
