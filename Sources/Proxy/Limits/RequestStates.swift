/// The states of one `limit_req_zone`, in the order of their use, within the zone's size. The caller brings the clock.
///
/// If the zone is full, the state that was used least recently makes room. A state that a request still needs stays.
struct RequestStates {
  /// What a zone says of one request.
  enum Answer: Equatable {
    /// The request is above `burst`.
    case refused(excess: Int)
    /// The request was counted.
    case counted(excess: Int)
    /// The request isn't counted yet: `settle` or `release` must follow.
    case reserved(Reservation)
    /// No state fits into the zone.
    case full
  }

  /// A state that a request holds until its other limits have decided.
  struct Reservation: Equatable {
    fileprivate let index: Int
  }

  private struct State {
    var key: [UInt8]
    var bucket = LeakyBucket()
    /// Requests that hold the state.
    var holders = 0
    /// Towards the one used more recently, and less recently; -1 at the ends.
    var newer = -1
    var older = -1
  }

  let size: Int
  private var states: [State] = []
  private var unused: [Int] = []
  private var places: [[UInt8]: Int] = [:]
  private var newest = -1
  private var oldest = -1
  private(set) var usedBytes = 0

  /// `size`: of the zone, in bytes.
  init(size: Int) { self.size = size }

  var count: Int { places.count }

  /// The memory of a state: the key's object, its place in the dictionary and the state, with what both keep spare.
  static func bytes(ofKey count: Int) -> Int { 192 + (count + 15) / 16 * 16 }

  /// Judges a request. `isLast`: no other limit judges it after this one, so it counts at once.
  mutating func ask(_ key: [UInt8], rate: Int, burst: Int, now: UInt64, isLast: Bool) -> Answer {
    guard let place = places[key] else { return add(key, rate: rate, now: now, isLast: isLast) }
    unlink(place)
    link(place)
    let excess = states[place].bucket.excess(now: now, rate: rate)
    if excess > burst { return .refused(excess: excess) }
    return taken(place, excess, now: now, isLast: isLast)
  }

  /// Counts a request whose state was reserved, and returns its excess.
  mutating func settle(_ reservation: Reservation, rate: Int, now: UInt64) -> Int {
    let excess = states[reservation.index].bucket.excess(now: now, rate: rate)
    states[reservation.index].bucket.take(excess, now: now)
    release(reservation)
    return excess
  }

  /// Gives a reserved state back, without counting the request.
  mutating func release(_ reservation: Reservation) { states[reservation.index].holders -= 1 }

  private mutating func taken(_ place: Int, _ excess: Int, now: UInt64, isLast: Bool) -> Answer {
    if isLast {
      states[place].bucket.take(excess, now: now)
      return .counted(excess: excess)
    }
    states[place].holders += 1
    return .reserved(Reservation(index: place))
  }

  private mutating func add(_ key: [UInt8], rate: Int, now: UInt64, isLast: Bool) -> Answer {
    let cost = Self.bytes(ofKey: key.count)
    for _ in 0..<2 where isOldestStale(now: now, rate: rate) { dropOldest() }
    guard cost <= size else { return .full }
    while usedBytes > size - cost {
      guard oldest >= 0, states[oldest].holders == 0 else { return .full }
      dropOldest()
    }
    let place = unused.popLast() ?? states.count
    if place == states.count { states.append(State(key: key)) } else { states[place] = State(key: key) }
    places[key] = place
    usedBytes += cost
    link(place)
    return taken(place, 0, now: now, isLast: isLast)
  }

  private func isOldestStale(now: UInt64, rate: Int) -> Bool {
    guard oldest >= 0, states[oldest].holders == 0 else { return false }
    return states[oldest].bucket.isStale(now: now, rate: rate)
  }

  private mutating func dropOldest() {
    let place = oldest
    unlink(place)
    let key = states[place].key
    places[key] = nil
    usedBytes -= Self.bytes(ofKey: key.count)
    states[place].key = []
    unused.append(place)
  }

  private mutating func link(_ place: Int) {
    states[place].newer = -1
    states[place].older = newest
    if newest >= 0 { states[newest].newer = place } else { oldest = place }
    newest = place
  }

  private mutating func unlink(_ place: Int) {
    let (newer, older) = (states[place].newer, states[place].older)
    if newer >= 0 { states[newer].older = older } else { newest = older }
    if older >= 0 { states[older].newer = newer } else { oldest = newer }
  }
}
