import Bytes
import Observability
import Synchronization

/// The pairs of one `keyval_zone`, within the zone's size. All workers share it; the lock is held for one look-up.
final class KeyvalZone: Sendable {
  enum Change: Equatable { case done, exists, absent, full }

  private struct Pair {
    var value: [UInt8]
    /// Milliseconds of the monotonic clock; nil: it stays.
    var end: UInt64?
  }

  private struct State {
    var pairs: [[UInt8]: Pair] = [:]
    var bytes = 0

    mutating func remove(_ key: [UInt8]) {
      guard let pair = pairs.removeValue(forKey: key) else { return }
      bytes -= KeyvalZone.cost(key, pair.value)
    }

    mutating func forget(now: UInt64) {
      for (key, pair) in pairs where pair.end.map({ $0 <= now }) ?? false { remove(key) }
    }
  }

  /// Bytes of a key or a value.
  static let longest = 8192

  private let size: Int
  private let state = Mutex(State())

  init(size: Int) { self.size = size }

  /// The memory of a pair: both texts, and their place in the dictionary with what it keeps spare.
  private static func cost(_ key: [UInt8], _ value: [UInt8]) -> Int { 192 + key.count + value.count }

  func value(of key: [UInt8], now: UInt64) -> [UInt8]? {
    state.withLock { state in
      guard let pair = state.pairs[key], pair.end.map({ $0 > now }) ?? true else { return nil }
      return pair.value
    }
  }

  /// `isNew`: the key must not be there; otherwise it must. `timeout`: milliseconds.
  func set(_ key: [UInt8], to value: [UInt8], isNew: Bool, timeout: Int?, now: UInt64) -> Change {
    state.withLock { state in
      state.forget(now: now)
      let former = state.pairs[key]
      if isNew, former != nil { return .exists }
      if !isNew, former == nil { return .absent }
      let room = size - state.bytes + (former.map { Self.cost(key, $0.value) } ?? 0)
      guard Self.cost(key, value) <= room else { return .full }
      state.remove(key)
      state.bytes += Self.cost(key, value)
      state.pairs[key] = Pair(value: value, end: timeout.map { now &+ UInt64(max(1, $0)) })
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

  func removeAll() { state.withLock { $0 = State() } }

  /// All pairs, in the order of their keys.
  func all(now: UInt64) -> [(key: [UInt8], value: [UInt8])] {
    let all = state.withLock { state in
      state.forget(now: now)
      return state.pairs
    }
    return all.map { (key: $0.key, value: $0.value.value) }.sorted { $0.key.lexicographicallyPrecedes($1.key) }
  }
}

/// The zones in use, by name and size: a reload keeps their pairs.
final class KeyvalZones: Sendable {
  private struct Identity: Hashable {
    let name: String
    let size: Int
  }

  private let zones = ZoneRegistry<Identity, KeyvalZone>()

  func zone(_ settings: KeyvalZoneSettings) -> KeyvalZone {
    zones.zone(Identity(name: settings.name, size: settings.size)) { _ in KeyvalZone(size: settings.size) }
  }
}
