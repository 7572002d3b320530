import Forward
import Observability
import Redis
import Traffic
import Transport

/// The pairs of a `keyval_zone` with a store, in the first worker of a process: each second, and with each connection, it asks
/// whether another machine has changed one, and takes all pairs over if so. Look-ups see the process's own copy, so they
/// never wait, and while the store can't be asked the copy stays.
///
/// Pairs go over the connection in pieces, both ways: others ask on it too, no reply may be larger than `RedisReader`
/// takes, and the store does nothing else while a script runs.
final class SharedKeyval {
  private let store: StoreClient
  private let zone: KeyvalZone
  private let name: String
  private let key: [UInt8]
  private let loop: EventLoop
  private let pool: BlockingPool
  private let tell: (LogLevel, String) -> Void
  private var timer: OneShotTimer?
  /// The count of changes that the copy has.
  private var known: [UInt8] = []
  private var isAsking = false
  /// The pieces that are read already; nil: nothing is being read.
  private var filling: KeyvalZone.Filling?
  /// Readings that a change of this process came between, in a row.
  private var overtaken = 0

  /// Milliseconds.
  private static let interval = 1000
  /// Far more than the pieces of the largest zone: a store that never ends its list is left alone for a second.
  private static let mostParts = 100_000
  private static let mostOvertaken = 3
  /// Of a piece that is written.
  private static let largestPart = 32 * 1024

  init(
    _ store: StoreClient, _ settings: KeyvalZoneSettings, _ zone: KeyvalZone, loop: EventLoop, pool: BlockingPool,
    tell: @escaping (LogLevel, String) -> Void
  ) {
    self.store = store
    self.zone = zone
    self.loop = loop
    self.pool = pool
    self.tell = tell
    name = settings.name
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
      then: StoreClient.reading(SharedKeyvalState.init) { [weak self] answer in
        guard let self else { return }
        isAsking = false
        guard case .success(let state) = answer else { return }
        switch state {
        case .same: break
        case .none: seed()
        case .changed(let count):
          filling = zone.filling()
          read(upTo: count)
        case .damaged:
          tell(
            .error, "keyval_zone \"\(name)\": the store has no count of its changes, so the pairs stay as they are here"
          )
        }
      })
  }

  // MARK: Reading

  /// Reads the next piece into `filling`. `count`: of the changes when the first one was read, so that whatever is
  /// changed meanwhile is read after this.
  private func read(upTo count: [UInt8], from place: SharedKeyvalPart.Place = .start, parts: Int = 1) {
    isAsking = true
    store.ask(
      .keyvalPart, keys: [key], place.words,
      then: StoreClient.reading(SharedKeyvalPart.init) { [weak self] answer in
        guard let self else { return }
        isAsking = false
        guard case .success(let part) = answer else {
          filling = nil
          return
        }
        for pair in part.pairs { filling?.add(pair, now: loop.now) }
        // A pair that doesn't fit keeps no smaller one out.
        guard let next = part.next else { return take(count) }
        guard parts < Self.mostParts else {
          filling = nil
          return tell(.error, "keyval_zone \"\(name)\": the store does not end its list of pairs")
        }
        read(upTo: count, from: next, parts: parts + 1)
      })
  }

  private func take(_ count: [UInt8]) {
    guard let filling = filling.take() else { return }
    guard zone.replace(filling, always: overtaken >= Self.mostOvertaken, giveUp: { $0.giveUp(pool) }) else {
      // What was read may be older than what this process has changed since. The next question reads again.
      overtaken += 1
      return
    }
    overtaken = 0
    known = count
    if filling.isFull {
      tell(.error, "keyval_zone \"\(name)\" can't take all the pairs that the store has: the zone is full")
    }
  }

  // MARK: Writing

  /// A store that came back empty gets the pairs of the first that asks.
  private func seed() {
    let pairs = zone.pairs(now: loop.now)
    if !pairs.isEmpty { seed(pairs[...], mark: []) }
  }

  /// Writes the next piece. `mark`: what the last one left, so that nobody else has come between; empty for the first.
  private func seed(_ pairs: ArraySlice<(key: [UInt8], pair: KeyvalZone.Pair)>, mark: [UInt8]) {
    var (words, size, rest): ([[UInt8]], Int, ArraySlice<(key: [UInt8], pair: KeyvalZone.Pair)>) = ([], 0, pairs)
    while let (key, pair) = rest.first, size < Self.largestPart {
      let now = loop.now
      rest = rest.dropFirst()
      if let end = pair.end, end <= now { continue }
      let life = pair.end.map { Array("\($0 &- now)".utf8) } ?? []
      words += [key, life, pair.value]
      size += key.count + pair.value.count + 64
    }
    // Not the number of another time: who knows that one must not take these pairs for known.
    let count = rest.isEmpty ? Array("\(Int64.random(in: 1...1 << 50))".utf8) : []
    isAsking = true
    store.ask(
      .keyvalSeed, keys: [key], [mark, count] + words,
      then: StoreClient.reading(Self.mark) { [weak self, rest] answer in
        guard let self else { return }
        isAsking = false
        guard case .success(let mark) = answer, !mark.isEmpty, !rest.isEmpty else { return }
        seed(rest, mark: mark)
      })
  }

  /// The reply to a piece that was written: empty if somebody else writes.
  private static func mark(_ reply: RedisReply) -> [UInt8]? {
    if case .text(let mark) = reply { mark } else { nil }
  }
}

/// What `StoreScript.keyvalRead` returns.
enum SharedKeyvalState: Equatable {
  /// There is nothing.
  case none
  /// Nothing is changed, or somebody is writing all pairs.
  case same
  /// The count of changes.
  case changed([UInt8])
  /// The hash has no count that the scripts could have written.
  case damaged

  /// nil: it is none that the script has.
  init?(_ reply: RedisReply) {
    guard case .list(let parts) = reply, case .number(let kind)? = parts.first else { return nil }
    switch (kind, parts.count) {
    case (0, 1): self = .none
    case (1, 1): self = .same
    case (2, 2):
      guard case .text(let count) = parts[1], !count.isEmpty, count.allSatisfy({ $0 &- 0x30 < 10 }) else { return nil }
      self = .changed(count)
    case (3, 1): self = .damaged
    default: return nil
    }
  }
}

/// What `StoreScript.keyvalPart` returns.
struct SharedKeyvalPart: Equatable {
  /// Where a piece begins: HSCAN's cursor, and the digest of the last pair of those that belong to it.
  struct Place: Equatable {
    static let start = Place(cursor: [0x30], digest: [])
    let cursor: [UInt8]
    let digest: [UInt8]
    var words: [[UInt8]] { [cursor, digest] }
  }

  struct Pair: Equatable {
    let key: [UInt8]
    let value: [UInt8]
    /// Milliseconds; nil: for ever.
    let life: Int?
  }

  let pairs: [Pair]
  /// nil: this was the last one.
  let next: Place?

  /// nil: it is none that the script has. A field that no script has written is left out: somebody else has, and it is
  /// no reason to drop a connection on which others ask.
  init?(_ reply: RedisReply) {
    guard case .list(let parts) = reply, parts.count == 4, case .number(let now) = parts[0], now >= 0,
      case .text(let cursor) = parts[1], !cursor.isEmpty, cursor.count <= 20, cursor.allSatisfy({ $0 &- 0x30 < 10 }),
      case .text(let digest) = parts[2], digest.isEmpty || digest.count == 40,
      case .list(let fields) = parts[3], fields.count % 2 == 0
    else { return nil }
    var pairs: [Pair] = []
    for index in stride(from: 0, to: fields.count, by: 2) {
      guard case .text(let key) = fields[index], case .text(let kept) = fields[index + 1] else { return nil }
      guard !key.isEmpty, let colon = kept.firstIndex(of: 0x3A),
        let end = Int64(String(decoding: kept[..<colon], as: UTF8.self)), end >= 0
      else { continue }
      // Both are not negative, so the difference can't overflow.
      if end != 0, end <= now { continue }
      pairs.append(
        Pair(key: key, value: Array(kept[(colon + 1)...]), life: end == 0 ? nil : Int(clamping: end - now)))
    }
    self.pairs = pairs
    next = cursor == [0x30] && digest.isEmpty ? nil : Place(cursor: cursor, digest: digest)
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
    case ("busy", .add), ("busy", .set), ("busy", .remove): .busy
    default: nil
    }
  }
}
