import Bytes
import Traffic

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
    fileprivate let place: LRUTable<[UInt8], State>.Place
  }

  fileprivate struct State {
    var bucket = LeakyBucket()
    /// Requests that hold the state.
    var holders = 0
  }

  let size: Int
  private var states = LRUTable<[UInt8], State>()
  private(set) var usedBytes = 0

  /// `size`: of the zone, in bytes.
  init(size: Int) { self.size = size }

  var count: Int { states.count }

  /// The memory of a state: the key's object, its place in the dictionary and the state, with what both keep spare.
  static func bytes(ofKey count: Int) -> Int { 192 + (count + 15) / 16 * 16 }

  /// Judges a request. `isLast`: no other limit judges it after this one, so it counts at once.
  mutating func ask(_ key: [UInt8], rate: Int, burst: Int, now: UInt64, isLast: Bool) -> Answer {
    guard let place = states.place(of: key), let state = states[place] else {
      return add(key, rate: rate, now: now, isLast: isLast)
    }
    states.use(place)
    let excess = state.bucket.excess(now: now, rate: rate)
    if excess > burst { return .refused(excess: excess) }
    return taken(place, excess, now: now, isLast: isLast)
  }

  /// Counts a request whose state was reserved, and returns its excess.
  mutating func settle(_ reservation: Reservation, rate: Int, now: UInt64) -> Int {
    let excess = states[reservation.place]?.bucket.excess(now: now, rate: rate) ?? 0
    states[reservation.place]?.bucket.take(excess, now: now)
    release(reservation)
    return excess
  }

  /// Gives a reserved state back, without counting the request.
  mutating func release(_ reservation: Reservation) { states[reservation.place]?.holders -= 1 }

  private mutating func taken(_ place: LRUTable<[UInt8], State>.Place, _ excess: Int, now: UInt64, isLast: Bool)
    -> Answer
  {
    if isLast {
      states[place]?.bucket.take(excess, now: now)
      return .counted(excess: excess)
    }
    states[place]?.holders += 1
    return .reserved(Reservation(place: place))
  }

  private mutating func add(_ key: [UInt8], rate: Int, now: UInt64, isLast: Bool) -> Answer {
    let cost = Self.bytes(ofKey: key.count)
    for _ in 0..<2 where isOldestStale(now: now, rate: rate) { dropOldest() }
    guard cost <= size else { return .full }
    while usedBytes > size - cost {
      guard let oldest = states.oldest, states[oldest]?.holders == 0 else { return .full }
      dropOldest()
    }
    usedBytes += cost
    return taken(states.insert(State(), for: key), 0, now: now, isLast: isLast)
  }

  private func isOldestStale(now: UInt64, rate: Int) -> Bool {
    guard let oldest = states.oldest, let state = states[oldest], state.holders == 0 else { return false }
    return state.bucket.isStale(now: now, rate: rate)
  }

  private mutating func dropOldest() {
    guard let oldest = states.oldest else { return }
    usedBytes -= Self.bytes(ofKey: states.key(at: oldest).count)
    states.remove(oldest)
  }
}
