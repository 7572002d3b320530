/// How long a server's responses take, for `least_time`: averages in which each response has an eighth of the weight.
/// nginx's documentation leaves the weight open. All arithmetic saturates.
struct ResponseTimes: Sendable, Equatable {
  /// In 1/256 of a millisecond; nil before the first response.
  private struct Average: Sendable, Equatable {
    private var value: Int?
    var milliseconds: Int { (value ?? 0) >> 8 }

    mutating func add(_ milliseconds: UInt64) {
      let next = Int(clamping: min(milliseconds, 1 << 40)) << 8
      value = value.map { $0 + (next - $0) / 8 } ?? next
    }
  }

  private var header = Average()
  private var whole = Average()
  private var flight = Average()
  /// Attempts without a response, the sum of their ages, and when that sum was right.
  private(set) var inFlight = 0
  private var ages: UInt64 = 0
  private var agesAt: UInt64 = 0

  // MARK: Attempts in flight

  mutating func begin(now: UInt64) {
    settleAges(now: now)
    inFlight += 1
  }

  /// An attempt has its response, or ends without one. `age`: how old it is.
  mutating func land(age: UInt64, now: UInt64) {
    settleAges(now: now)
    inFlight = max(0, inFlight - 1)
    ages = inFlight == 0 || age > ages ? 0 : ages - age
  }

  /// Takes the ages of the attempts in flight into their average, before a choice.
  mutating func noteAges(now: UInt64) {
    guard inFlight > 0 else { return }
    settleAges(now: now)
    flight.add(ages / UInt64(inFlight))
  }

  private mutating func settleAges(now: UInt64) {
    let elapsed = now < agesAt ? 0 : now - agesAt
    agesAt = now
    let (grown, overflow) = elapsed.multipliedReportingOverflow(by: UInt64(clamping: inFlight))
    let (sum, overflowOfSum) = ages.addingReportingOverflow(grown)
    ages = overflow || overflowOfSum ? .max : sum
  }

  // MARK: Responses

  mutating func addHeader(_ milliseconds: UInt64) { header.add(milliseconds) }
  mutating func addWhole(_ milliseconds: UInt64) { whole.add(milliseconds) }

  /// The estimated time in which the server ends what it has to do, one more request included (nginx's `eta`).
  /// `isIdleFor`: how many times `fail_timeout` has passed since the server was looked at; each halves the time, so that
  /// a slow server gets another chance.
  func estimate(_ kind: BalanceMethod.ResponseTime, active: Int, isIdleFor halvings: UInt64) -> Int {
    var time = kind == .lastByte ? whole.milliseconds : header.milliseconds
    time = halvings < 63 ? time >> Int(halvings) : 0
    if inFlight > 0 { time = max(time, flight.milliseconds) }
    // Servers slower than five seconds are equally bad, and times within 20 ms are equal: the connections then decide.
    time = time > 5000 ? 5000 : time + 20 - time % 20
    return time.saturatingProduct(active < Int.max ? active + 1 : active)
  }
}

extension Int {
  func saturatingProduct(_ other: Int) -> Int {
    let (product, overflow) = multipliedReportingOverflow(by: other)
    return overflow ? .max : product
  }
}

/// When an attempt got its response's head and its end, in milliseconds after its start.
struct AttemptTimes: Sendable {
  /// nil: no head came.
  var header: UInt64?
  var whole: UInt64 = 0
  /// `headDidCome` has been called for it.
  var hasToldHead = false
}
