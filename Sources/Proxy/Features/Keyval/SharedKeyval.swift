import Redis
import Transport

/// The pairs of a `keyval_zone` with a store, in the first worker of a process: each second, and with each connection, it asks
/// whether another machine has changed one, and takes all pairs over if so. Look-ups see the process's own copy, so they
/// never wait, and while the store can't be asked the copy stays.
final class SharedKeyval {
  private let store: StoreClient
  private let zone: KeyvalZone
  private let key: [UInt8]
  private let loop: EventLoop
  private var timer: OneShotTimer?
  /// The count of changes that the copy has.
  private var known: [UInt8] = []
  private var isAsking = false

  /// Milliseconds.
  private static let interval = 1000

  init(_ store: StoreClient, _ settings: KeyvalZoneSettings, _ zone: KeyvalZone, loop: EventLoop) {
    self.store = store
    self.zone = zone
    self.loop = loop
    key = Self.key(of: settings)
    store.didConnect.append { [weak self] in self?.ask() }
    wait()
  }

  static func key(of settings: KeyvalZoneSettings) -> [UInt8] { StoreKey.of("keyval", settings.name, []) }

  func close() {
    timer?.cancel()
    timer = nil
  }

  private func wait() {
    timer = loop.after(Self.interval) { [weak self] in
      guard let self else { return }
      if store.isReady { ask() }
      wait()
    }
  }

  private func ask() {
    guard !isAsking else { return }
    isAsking = true
    store.ask(
      .keyvalRead, keys: [key], [known],
      then: StoreClient.reading(SharedPairs.init) { [weak self] answer in
        guard let self else { return }
        isAsking = false
        guard case .success(let state) = answer else { return }
        switch state {
        case .same: break
        case .none: seed()
        case .pairs(let count, let pairs):
          known = count
          zone.replace(pairs, now: loop.now)
        }
      })
  }

  /// A store that came back empty gets the pairs of the first that asks.
  private func seed() {
    let pairs = zone.pairs(now: loop.now)
    guard !pairs.isEmpty else { return }
    let words = pairs.flatMap { key, pair -> [[UInt8]] in
      let life = pair.end.map { Array("\($0 &- loop.now)".utf8) } ?? []
      return [key, life, pair.value]
    }
    store.ask(.keyvalSeed, keys: [key], words) { _ in true }
  }
}

/// What `StoreScript.keyvalRead` returns.
enum SharedPairs: Equatable {
  case none
  case same
  /// `count`: of changes.
  case pairs(count: [UInt8], [Pair])

  struct Pair: Equatable {
    let key: [UInt8]
    let value: [UInt8]
    /// Milliseconds; nil: for ever.
    let life: Int?
  }

  /// nil: it is none that the script has.
  init?(_ reply: RedisReply) {
    guard case .list(let parts) = reply, case .number(let kind)? = parts.first else { return nil }
    switch (kind, parts.count) {
    case (0, 1): self = .none
    case (1, 1): self = .same
    case (2, 4):
      guard case .text(let count) = parts[1], !count.isEmpty, count.allSatisfy({ $0 &- 0x30 < 10 }),
        case .number(let now) = parts[2], now >= 0, case .list(let fields) = parts[3], fields.count % 2 == 0
      else { return nil }
      var pairs: [Pair] = []
      for index in stride(from: 0, to: fields.count, by: 2) {
        guard case .text(let key) = fields[index], case .text(let kept) = fields[index + 1] else { return nil }
        if key.isEmpty { continue }
        guard let colon = kept.firstIndex(of: 0x3A), let end = Int64(String(decoding: kept[..<colon], as: UTF8.self)),
          end >= 0
        else { return nil }
        // Both are not negative, so the difference can't overflow.
        if end != 0, end <= now { continue }
        pairs.append(
          Pair(key: key, value: Array(kept[(colon + 1)...]), life: end == 0 ? nil : Int(clamping: end - now)))
      }
      self = .pairs(count: count, pairs.sorted { $0.key.lexicographicallyPrecedes($1.key) })
    default: return nil
    }
  }
}

/// A change of a pair in a store.
struct SharedKeyvalChange {
  enum Kind: String { case add, set, remove, clear }

  let kind: Kind
  var key: [UInt8] = []
  var value: [UInt8] = []
  /// Milliseconds; nil: for ever.
  var life: Int?

  var words: [[UInt8]] {
    [Array(kind.rawValue.utf8), key, value, life.map { Array("\(max(1, $0))".utf8) } ?? []]
  }

  /// What a reply says; nil: it is none that the script has for this change.
  func outcome(_ reply: RedisReply) -> KeyvalZone.Change? {
    guard case .text(let text) = reply else { return nil }
    return switch (String(decoding: text, as: UTF8.self), kind) {
    case ("done", _): .done
    case ("exists", .add): .exists
    case ("absent", .set), ("absent", .remove): .absent
    default: nil
    }
  }
}
