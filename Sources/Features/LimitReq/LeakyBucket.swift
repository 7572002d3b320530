import Traffic

/// The requests of one key above the rate of its zone: nginx's leaky bucket (`ngx_http_limit_req_module`) as a value.
///
/// All arithmetic saturates. Amounts are in thousandths of a request, times in milliseconds of a monotonic clock, which
/// two workers read at slightly different times.
struct LeakyBucket: Equatable {
  /// Thousandths of a request above the rate, at `last`.
  private(set) var excess = 0
  /// When `excess` was right; nil before the first request.
  private(set) var last: UInt64?

  /// The excess if one more request came now. `rate`: thousandths of a request per second.
  func excess(now: UInt64, rate: Int) -> Int {
    guard last != nil else { return 0 }
    let (sum, overflow) = drained(by: elapsed(now), rate: rate).addingReportingOverflow(1000)
    return overflow ? Int.max : max(0, sum)
  }

  /// Takes one request into account.
  mutating func take(_ excess: Int, now: UInt64) {
    self.excess = excess
    if last == nil || elapsed(now) != 0 { last = now }
  }

  /// Whether the state says nothing that a new one wouldn't: a minute old, with no excess left.
  func isStale(now: UInt64, rate: Int) -> Bool {
    guard let last else { return true }
    let distance = Int64(bitPattern: now &- last).magnitude
    return distance >= 60_000 && drained(by: Int(clamping: distance), rate: rate) <= 0
  }

  /// Milliseconds since the last request. As in nginx, a clock a little behind counts as no time, and one far behind
  /// as one millisecond, so that `last` is set anew.
  private func elapsed(_ now: UInt64) -> Int {
    let distance = Int64(bitPattern: now &- (last ?? now))
    return distance < -60_000 ? 1 : Int(max(0, distance))
  }

  private func drained(by milliseconds: Int, rate: Int) -> Int {
    let (product, overflow) = rate.multipliedReportingOverflow(by: milliseconds)
    // The excess isn't negative, so this difference can't overflow.
    return overflow ? -1000 : max(-1000, excess - product / 1000)
  }

  /// How long a request with this excess waits, in milliseconds. `free`: the excess that doesn't wait (`delay=`).
  static func wait(excess: Int, free: Int, rate: Int) -> Int {
    guard excess > free, rate > 0 else { return 0 }
    let (product, overflow) = (excess - free).multipliedReportingOverflow(by: 1000)
    return (overflow ? Int.max : product) / rate
  }
}
