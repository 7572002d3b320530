import Bytes
package import Observability
import Synchronization

/// How the key of a look-up finds a pair (`type=`).
enum KeyvalMatching: String, Sendable, Hashable, CaseIterable {
  /// By equal keys.
  case string
  /// The pair's key is an address or a network, and the key that is looked up an address or a network in it. The smallest
  /// network counts.
  case ip
  /// The key that is looked up begins with the pair's key. The longest key counts.
  case prefix
}

/// The pairs of one `keyval_zone`, within the zone's size. All workers share it; the lock is held for one look-up.
final class KeyvalZone: Sendable {
  enum Change: Equatable { case done, exists, absent, full, malformed }

  struct Pair: Sendable, Equatable {
    var value: [UInt8]
    /// Milliseconds of the monotonic clock; nil: it stays.
    var end: UInt64?

    func isOver(_ now: UInt64) -> Bool { end.map { $0 <= now } ?? false }
  }

  private struct State {
    let matching: KeyvalMatching
    var pairs: [[UInt8]: Pair] = [:]
    var bytes = 0
    /// With `type=ip`: the keys by their networks.
    var networks: [AddressRange: [UInt8]] = [:]
    /// How many keys there are of each length: in octets, or with `type=ip` in bits that are free. In the order in which they
    /// are looked up.
    var lengths: [(length: Int, count: Int)] = []

    init(_ matching: KeyvalMatching) { self.matching = matching }

    mutating func insert(_ key: [UInt8], _ pair: Pair, _ network: AddressRange?) {
      remove(key)
      bytes += KeyvalZone.cost(key, pair.value)
      pairs[key] = pair
      if let network { networks[network] = key }
      count(key, network, 1)
    }

    mutating func remove(_ key: [UInt8]) {
      guard let pair = pairs.removeValue(forKey: key) else { return }
      bytes -= KeyvalZone.cost(key, pair.value)
      let network = matching == .ip ? KeyvalZone.network(key) : nil
      if let network { networks[network] = nil }
      count(key, network, -1)
    }

    private mutating func count(_ key: [UInt8], _ network: AddressRange?, _ change: Int) {
      let length: Int
      switch matching {
      case .string: return
      case .prefix: length = key.count
      case .ip: length = network?.freeBits ?? 0
      }
      if let place = lengths.firstIndex(where: { $0.length == length }) {
        lengths[place].count += change
        if lengths[place].count <= 0 { lengths.remove(at: place) }
      } else if change > 0 {
        lengths.append((length, 1))
        lengths.sort { matching == .ip ? $0.length < $1.length : $0.length > $1.length }
      }
    }

    mutating func forget(now: UInt64) {
      for (key, pair) in pairs where pair.isOver(now) { remove(key) }
    }

    func find(_ key: [UInt8], now: UInt64) -> [UInt8]? {
      func value(_ key: [UInt8]) -> [UInt8]? { pairs[key].flatMap { $0.isOver(now) ? nil : $0.value } }
      switch matching {
      case .string: return value(key)
      case .prefix:
        for (length, _) in lengths where length <= key.count {
          if let found = value(Array(key.prefix(length))) { return found }
        }
      case .ip:
        guard !pairs.isEmpty, let asked = KeyvalZone.network(key) else { return nil }
        for (length, _) in lengths where length >= asked.freeBits {
          if let found = networks[asked.widened(to: length)].flatMap(value) { return found }
        }
      }
      return nil
    }
  }

  /// Bytes of a key or a value.
  static let longest = 8192

  private let size: Int
  private let matching: KeyvalMatching
  private let state: Mutex<State>

  init(size: Int, matching: KeyvalMatching = .string) {
    self.size = size
    self.matching = matching
    state = Mutex(State(matching))
  }

  /// The memory of a pair: both texts, and their places in dictionaries with what these keep spare.
  private static func cost(_ key: [UInt8], _ value: [UInt8]) -> Int { 192 + key.count + value.count }

  private static func network(_ key: [UInt8]) -> AddressRange? {
    key.count <= 64 ? AddressRange.parse(String(decoding: key, as: UTF8.self))?.range : nil
  }

  func value(of key: [UInt8], now: UInt64) -> [UInt8]? { state.withLock { $0.find(key, now: now) } }

  /// The value of a pair with this very key.
  func pair(_ key: [UInt8], now: UInt64) -> [UInt8]? {
    state.withLock { state in state.pairs[key].flatMap { $0.isOver(now) ? nil : $0.value } }
  }

  /// Whether a pair could be taken: nil, or why not. What is there already is not asked.
  func obstacle(_ key: [UInt8], _ value: [UInt8], now: UInt64) -> Change? {
    if matching == .ip, Self.network(key) == nil { return .malformed }
    return state.withLock { state in
      state.forget(now: now)
      let own = state.pairs[key].map { Self.cost(key, $0.value) } ?? 0
      return Self.cost(key, value) <= size - state.bytes + own ? nil : .full
    }
  }

  /// Takes what a store has in place of all pairs, as far as it fits.
  func replace(_ pairs: [SharedPairs.Pair], now: UInt64) {
    state.withLock { state in
      state = State(matching)
      for pair in pairs {
        let network = matching == .ip ? Self.network(pair.key) : nil
        guard matching != .ip || network != nil, state.bytes + Self.cost(pair.key, pair.value) <= size else { continue }
        state.insert(pair.key, Pair(value: pair.value, end: pair.life.map { now &+ UInt64(max(1, $0)) }), network)
      }
    }
  }

  /// Takes over what a store has done.
  func apply(_ change: SharedKeyvalChange, now: UInt64) {
    switch change.kind {
    case .clear: removeAll()
    case .remove: _ = remove(change.key, now: now)
    case .add, .set:
      _ = remove(change.key, now: now)
      _ = set(change.key, to: change.value, isNew: true, timeout: change.life, now: now)
    }
  }

  /// `isNew`: the key must not be there; otherwise it must. `timeout`: milliseconds.
  func set(_ key: [UInt8], to value: [UInt8], isNew: Bool, timeout: Int?, now: UInt64) -> Change {
    let network = matching == .ip ? Self.network(key) : nil
    guard matching != .ip || network != nil else { return .malformed }
    return state.withLock { state in
      state.forget(now: now)
      let former = state.pairs[key]
      // Another spelling of the same network is the same key.
      if isNew, former != nil || network.map({ state.networks[$0] != nil }) ?? false { return .exists }
      if !isNew, former == nil { return .absent }
      let room = size - state.bytes + (former.map { Self.cost(key, $0.value) } ?? 0)
      guard Self.cost(key, value) <= room else { return .full }
      state.insert(key, Pair(value: value, end: timeout.map { now &+ UInt64(max(1, $0)) }), network)
      return .done
    }
  }

  func remove(_ key: [UInt8], now: UInt64) -> Change {
    state.withLock { state in
      state.forget(now: now)
      guard state.pairs[key] != nil else { return .absent }
      state.remove(key)
      return .done
    }
  }

  func removeAll() { state.withLock { $0 = State(matching) } }

  /// All pairs, in the order of their keys.
  func all(now: UInt64) -> [(key: [UInt8], value: [UInt8])] { pairs(now: now).map { ($0.key, $0.pair.value) } }

  /// The same, with the ends of their times.
  func pairs(now: UInt64) -> [(key: [UInt8], pair: Pair)] {
    let all = state.withLock { state in
      state.forget(now: now)
      return state.pairs
    }
    return all.map { (key: $0.key, pair: $0.value) }.sorted { $0.key.lexicographicallyPrecedes($1.key) }
  }
}

extension AddressRange {
  /// Of a network: how many bits its addresses have for themselves.
  fileprivate var freeBits: Int { 128 - (last - first).leadingZeroBitCount }

  /// The network of so many free bits around this one.
  fileprivate func widened(to bits: Int) -> AddressRange {
    let host = bits >= 128 ? UInt128.max : (UInt128(1) << UInt128(bits)) - 1
    return AddressRange(first: first & ~host, last: first | host, isIPv4: isIPv4)
  }
}

/// The zones in use, by what they are: a reload keeps their pairs.
package final class KeyvalZones: Sendable {
  private let zones = ZoneRegistry<KeyvalZoneSettings.Identity, KeyvalZone>()

  func zone(_ settings: KeyvalZoneSettings) -> KeyvalZone {
    zones.zone(settings.identity) { _ in KeyvalZone(size: settings.size, matching: settings.matching) }
  }

  /// Returns the zones that have a `state`, new ones with the pairs of that file, and what is wrong with the files. Whoever
  /// keeps them keeps the pairs. Opens files, so never call it on an event loop.
  package func prepared(
    _ all: [KeyvalZoneSettings], now: UInt64
  ) -> (kept: KeptKeyvals, diagnostics: [Diagnostic]) {
    var (kept, found): ([KeyvalZone], [Diagnostic]) = ([], [])
    for settings in all {
      guard let state = settings.state else { continue }
      // What the file says counts for a start alone, so a broken one stops no reload.
      if let zone = zones.existing(settings.identity) {
        kept.append(zone)
        continue
      }
      switch state.read() {
      case .failure(let fault):
        found.append(
          Diagnostic(
            .error, at: settings.location,
            "\"\(state.path)\" can't be read as the state of a keyval_zone: \(fault.reason)",
            hint: "mend it, or move it away: the zone is empty then"))
      case .success(let pairs):
        kept.append(
          zones.zone(settings.identity) { _ in
            let zone = KeyvalZone(size: settings.size, matching: settings.matching)
            zone.take(pairs, now: now)
            return zone
          })
      }
    }
    return (KeptKeyvals(zones: kept), found)
  }
}

/// Zones that a generation keeps from its preparation on.
package struct KeptKeyvals: Sendable {
  private let zones: [KeyvalZone]
  fileprivate init(zones: [KeyvalZone]) { self.zones = zones }
  package init() { zones = [] }
}
