import Bytes
import Forward
import Observability
import Synchronization
import Traffic
import Transport

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

/// The pairs of one `keyval_zone`, within the zone's size. All workers share it. The lock is held for one look-up, one
/// change or one part of the pairs: a zone can have a hundred thousand of them, and a worker must not wait for so many.
final class KeyvalZone: Sendable {
  enum Change: Equatable {
    case done, exists, absent, full, malformed
    /// All pairs are being written to the store.
    case busy
  }

  struct Pair: Sendable, Equatable {
    var value: [UInt8]
    /// Milliseconds of the monotonic clock; nil: it stays.
    var end: UInt64?

    func isOver(_ now: UInt64) -> Bool { end.map { $0 <= now } ?? false }
  }

  fileprivate struct State: Sendable {
    let matching: KeyvalMatching
    /// By the hash of the key. Whoever reads all pairs takes one part after the other, and a change meanwhile copies one.
    private(set) var parts = [[[UInt8]: Pair]](repeating: [:], count: State.partCount)
    private(set) var count = 0
    private(set) var bytes = 0
    /// How often the pairs have changed.
    var changes: UInt64 = 0
    /// The keys of the pairs that end, by the second of their end.
    private var due: [UInt64: Set<[UInt8]>] = [:]
    /// What was to end before this second is forgotten.
    private var forgotten: UInt64 = 0
    /// With `type=ip`: the keys by their networks.
    private var networks: [AddressRange: [UInt8]] = [:]
    /// How many keys there are of each length: in octets, or with `type=ip` in bits that are free. In the order in which they
    /// are looked up.
    private var lengths: [(length: Int, count: Int)] = []

    static let partCount = 256
    /// Pairs that one change forgets, so that it takes no longer where many end together.
    private static let mostForgotten = 64

    init(_ matching: KeyvalMatching) { self.matching = matching }

    private static func part(of key: [UInt8]) -> Int { key.hashValue & (partCount - 1) }

    /// The pair with this very key, unless its time is over.
    func pair(_ key: [UInt8], now: UInt64) -> Pair? {
      parts[Self.part(of: key)][key].flatMap { $0.isOver(now) ? nil : $0 }
    }

    /// Whether there is a pair with this key, or with another spelling of the same network.
    func has(_ key: [UInt8], _ network: AddressRange?, now: UInt64) -> Bool {
      pair(key, now: now) != nil || network.flatMap { networks[$0] }.flatMap { pair($0, now: now) } != nil
    }

    /// Takes the place of a pair with this key, or with another spelling of the same network whose time is over.
    mutating func insert(_ key: [UInt8], _ pair: Pair, _ network: AddressRange?) {
      remove(key)
      if let network, let former = networks[network] { remove(former) }
      bytes += KeyvalZone.cost(key, pair.value)
      count += 1
      parts[Self.part(of: key)][key] = pair
      if let end = pair.end {
        due[end / 1000, default: []].insert(key)
        forgotten = min(forgotten, end / 1000)
      }
      if let network { networks[network] = key }
      note(key, network, 1)
    }

    mutating func remove(_ key: [UInt8]) {
      guard let pair = parts[Self.part(of: key)].removeValue(forKey: key) else { return }
      bytes -= KeyvalZone.cost(key, pair.value)
      count -= 1
      if let second = pair.end.map({ $0 / 1000 }) {
        due[second]?.remove(key)
        if due[second]?.isEmpty == true { due[second] = nil }
      }
      let network = matching == .ip ? KeyvalZone.network(key) : nil
      if let network { networks[network] = nil }
      note(key, network, -1)
    }

    private mutating func note(_ key: [UInt8], _ network: AddressRange?, _ change: Int) {
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

    /// Forgets some of the pairs whose time is over.
    mutating func forget(now: UInt64) {
      let second = now / 1000
      guard forgotten < second else { return }
      var left = Self.mostForgotten
      // No more of them than can be forgotten, and one that is left: all would take long where each pair has its own second.
      var seconds: [UInt64] = []
      let isSparse = second - forgotten > UInt64(due.count)
      if isSparse {
        seconds = Array(due.keys.lazy.filter { $0 < second }.prefix(left + 1))
      } else {
        for ended in forgotten..<second where due[ended] != nil {
          seconds.append(ended)
          if seconds.count > left { break }
        }
      }
      for ended in seconds {
        // An array, because a change would copy a set that somebody else still has.
        for key in Array((due[ended] ?? []).prefix(left)) {
          remove(key)
          left -= 1
        }
        guard due[ended] == nil else {
          // Those of a sparse time are in no order.
          if !isSparse { forgotten = ended }
          return
        }
      }
      forgotten = second
    }

    /// Forgets each pair whose time is over. For a zone that has no more room.
    mutating func forgetAll(now: UInt64) {
      for second in due.keys where second <= now / 1000 {
        for key in due[second] ?? [] where pair(key, now: now) == nil { remove(key) }
      }
    }

    func find(_ key: [UInt8], now: UInt64) -> [UInt8]? {
      switch matching {
      case .string: return pair(key, now: now)?.value
      case .prefix:
        for (length, _) in lengths where length <= key.count {
          if let found = pair(Array(key.prefix(length)), now: now) { return found.value }
        }
      case .ip:
        guard count > 0, let asked = KeyvalZone.network(key) else { return nil }
        for (length, _) in lengths where length >= asked.freeBits {
          if let found = networks[asked.widened(to: length)].flatMap({ pair($0, now: now) }) { return found.value }
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
  /// Of the changes that `state=` keeps: up to which one the file has them.
  private let written = Mutex<UInt64>(0)

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
  func pair(_ key: [UInt8], now: UInt64) -> [UInt8]? { state.withLock { $0.pair(key, now: now)?.value } }

  /// How many pairs there are, with some whose time is over.
  var count: Int { state.withLock { $0.count } }

  /// The bytes of the pairs, as the zone's size counts them.
  var bytes: Int { state.withLock { $0.bytes } }

  /// How often the pairs have changed.
  var changes: UInt64 { state.withLock { $0.changes } }

  /// Whether the zone has room for a pair, in place of the one with its key.
  private func hasRoom(_ key: [UInt8], _ value: [UInt8], in state: inout State, now: UInt64) -> Bool {
    func fits() -> Bool {
      let own = state.pair(key, now: now).map { Self.cost(key, $0.value) } ?? 0
      return Self.cost(key, value) <= size - state.bytes + own
    }
    if fits() { return true }
    state.forgetAll(now: now)
    return fits()
  }

  /// Whether a pair could be taken: nil, or why not. What is there already is not asked.
  func obstacle(_ key: [UInt8], _ value: [UInt8], now: UInt64) -> Change? {
    if matching == .ip, Self.network(key) == nil { return .malformed }
    return state.withLock { hasRoom(key, value, in: &$0, now: now) ? nil : .full }
  }

  /// What a store has, piece by piece, before it takes the place of all pairs at once.
  struct Filling {
    fileprivate var state: State
    /// Those of the zone when the filling began.
    fileprivate let changes: UInt64
    private let size: Int
    /// A pair did not fit. A smaller one may still.
    private(set) var isFull = false

    fileprivate init(_ state: State, since changes: UInt64, size: Int) {
      (self.state, self.changes, self.size) = (state, changes, size)
    }

    /// Takes a pair if it fits and can be looked up.
    mutating func add(_ pair: SharedKeyvalPart.Pair, now: UInt64) {
      let network = state.matching == .ip ? KeyvalZone.network(pair.key) : nil
      guard state.matching != .ip || network != nil else { return }
      let own = state.pair(pair.key, now: now).map { KeyvalZone.cost(pair.key, $0.value) } ?? 0
      guard KeyvalZone.cost(pair.key, pair.value) <= size - state.bytes + own else {
        isFull = true
        return
      }
      state.insert(pair.key, Pair(value: pair.value, end: pair.life.map { now &+ UInt64(max(1, $0)) }), network)
    }
  }

  func filling() -> Filling { Filling(State(matching), since: changes, size: size) }

  /// Takes what a store has in place of all pairs. Returns false if this process has changed one since the filling
  /// began, and what was read may be older; `always`: it counts all the same. `giveUp`: gets what the zone had.
  func replace(_ filling: Filling, always: Bool = false, giveUp: (Remains) -> Void = { _ in }) -> Bool {
    let former: Remains? = state.withLock { state in
      guard always || filling.changes == state.changes else { return nil }
      let former = state
      state = filling.state
      state.changes = former.changes &+ 1
      return Remains(former)
    }
    guard let former else { return false }
    giveUp(former)
    return true
  }

  /// The former state, which is large: nobody waits while it is given up.
  private func exchange(for fresh: State) -> State {
    state.withLock { state in
      let former = state
      state = fresh
      state.changes = former.changes &+ 1
      return former
    }
  }

  /// Takes over what a store has done. Returns what the zone had if all of it is gone.
  @discardableResult
  func apply(_ change: SharedKeyvalChange, now: UInt64) -> Remains? {
    // Even one that has no effect here: what is read of the store at this time may be older than it.
    state.withLock { $0.changes &+= 1 }
    switch change.kind {
    case .clear: return removeAll()
    case .remove: _ = remove(change.key, now: now)
    case .add, .set:
      _ = remove(change.key, now: now)
      _ = set(change.key, to: change.value, isNew: true, timeout: change.life, now: now)
    }
    return nil
  }

  /// `isNew`: the key must not be there; otherwise it must. `timeout`: milliseconds.
  func set(_ key: [UInt8], to value: [UInt8], isNew: Bool, timeout: Int?, now: UInt64) -> Change {
    let network = matching == .ip ? Self.network(key) : nil
    guard matching != .ip || network != nil else { return .malformed }
    return state.withLock { state in
      state.forget(now: now)
      if isNew, state.has(key, network, now: now) { return .exists }
      if !isNew, state.pair(key, now: now) == nil { return .absent }
      guard hasRoom(key, value, in: &state, now: now) else { return .full }
      state.insert(key, Pair(value: value, end: timeout.map { now &+ UInt64(max(1, $0)) }), network)
      state.changes &+= 1
      return .done
    }
  }

  func remove(_ key: [UInt8], now: UInt64) -> Change {
    state.withLock { state in
      state.forget(now: now)
      guard state.pair(key, now: now) != nil else { return .absent }
      state.remove(key)
      state.changes &+= 1
      return .done
    }
  }

  /// Calls `write` unless the file has this change already, and notes which changes it has then. Many changes at once so
  /// need few writes. The caller makes no two calls at a time.
  func keep<Fault: Error>(_ change: UInt64, by write: () throws(Fault) -> Void) throws(Fault) {
    if written.withLock({ $0 >= change }) { return }
    let known = changes
    try write()
    written.withLock { $0 = max($0, known) }
  }

  /// What a zone had before. To give up as much takes time, which a worker may leave to another thread.
  final class Remains: Sendable {
    private let state: State
    fileprivate init(_ state: State) { self.state = state }

    /// Has a thread of the pool give it up.
    func giveUp(_ pool: BlockingPool) {
      let last = Mutex<Remains?>(self)
      _ = pool.run(.memory, for: "") { last.withLock { $0 = nil } }
    }
  }

  @discardableResult
  func removeAll() -> Remains { Remains(exchange(for: State(matching))) }

  /// All pairs, in the order of their keys. For many, call this outside the event loops.
  func all(now: UInt64) -> [(key: [UInt8], value: [UInt8])] { pairs(now: now).map { ($0.key, $0.pair.value) } }

  /// The same, with the ends of their times. Has each change that was made before the call; of the changes during it, it may
  /// have one and not an earlier one.
  func pairs(now: UInt64) -> [(key: [UInt8], pair: Pair)] {
    var all: [(key: [UInt8], pair: Pair)] = []
    for index in 0..<State.partCount {
      let part = state.withLock { $0.parts[index] }
      for (key, pair) in part where !pair.isOver(now) { all.append((key, pair)) }
    }
    return all.sorted { $0.key.lexicographicallyPrecedes($1.key) }
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
final class KeyvalZones: SharedPart {
  private let zones = ZoneRegistry<KeyvalZoneSettings.Identity, KeyvalZone>()

  init(_ shared: SharedState) {}

  func zone(_ settings: KeyvalZoneSettings) -> KeyvalZone {
    zones.zone(settings.identity) { _ in KeyvalZone(size: settings.size, matching: settings.matching) }
  }

  /// Returns the zones that have a `state`, new ones with the pairs of that file, and what is wrong with the files.
  /// `damaged`: those that have no pairs; their zones begin empty. Whoever keeps the zones keeps the pairs. Opens
  /// files, so never call it on an event loop.
  func prepared(
    _ all: [KeyvalZoneSettings], now: UInt64
  ) -> (kept: KeptKeyvals, damaged: [String], diagnostics: [Diagnostic]) {
    var (kept, damaged, found): ([KeyvalZone], [String], [Diagnostic]) = ([], [], [])
    for settings in all {
      guard let state = settings.state else { continue }
      // What the file says counts for a start alone, so a broken one stops no reload.
      if let zone = zones.existing(settings.identity) {
        kept.append(zone)
        continue
      }
      switch state.read() {
      case .failure(let fault) where fault.isOfContent:
        damaged.append(state.path)
        found.append(
          Diagnostic(
            .warning, at: settings.location,
            "\"\(state.path)\", the state of keyval_zone \"\(settings.name)\", is damaged: \(fault.reason): the zone begins empty",
            hint: "\(DamagedState.keeping); add the pairs by the API, or mend that file and move it back before a start"
          ))
        kept.append(zone(settings))
      case .failure(let fault):
        found.append(
          Diagnostic(
            .error, at: settings.location,
            "\"\(state.path)\" can't be read as the state of a keyval_zone: \(fault.reason)",
            hint: "mend it, or move it away: the zone is empty then"))
      case .success(let pairs):
        var left = 0
        kept.append(
          zones.zone(settings.identity) { _ in
            let zone = KeyvalZone(size: settings.size, matching: settings.matching)
            left = zone.take(pairs, now: now)
            return zone
          })
        if left > 0 {
          found.append(
            Diagnostic(
              .warning, at: settings.location,
              "keyval_zone \"\(settings.name)\" can't take \(left) of the \(pairs.count) pairs of \"\(state.path)\": the next change by the API drops them from the file",
              hint: "a larger zone, or the type that the keys are for"))
        }
      }
    }
    return (KeptKeyvals(zones: kept), damaged, found)
  }
}

/// Zones that a generation keeps from its preparation on.
struct KeptKeyvals: GenerationPart {
  private let zones: [KeyvalZone]
  fileprivate init(zones: [KeyvalZone]) { self.zones = zones }
  init() { zones = [] }
}
