import ACME
import Crypto
import Observability
import Signature
import Synchronization
import Traffic
import Transport

/// The key sets of URLs, which a thread of the pool fetches, over generations. No request waits for one.
final class FetchedKeys: SharedPart {
  struct Source: Sendable, Hashable {
    let url: ACMEURL
    /// nil: the system's CAs verify the server.
    let trusted: MaterialReference?

    init(_ url: ACMEURL, _ trusted: MaterialReference?) {
      self.url = url
      self.trusted = trusted
    }
  }

  private struct State {
    var all: [Source: Keys] = [:]
    var log: ErrorLog?
  }

  private let state = Mutex(State())
  private let pool: BlockingPool

  init(_ shared: SharedState) { pool = shared.pool }

  /// The keys of a source, which are asked for when they are first needed.
  func keys(_ source: Source) -> Keys {
    state.withLock { state in
      if let known = state.all[source] { return known }
      let keys = Keys(source, self)
      state.all[source] = keys
      return keys
    }
  }

  /// Sources that the configuration no longer names are forgotten; the others are asked before a request needs them.
  func serve(_ generation: Generation) {
    var named: Set<Source> = []
    generation.http.visitLocations { location in
      if case .url(let url, let trusted)? = location[ClientToken.self]?.source.place {
        named.insert(Source(url, trusted))
      }
    }
    let kept = state.withLock { state in
      state.log = generation.errorLog
      state.all = state.all.filter { named.contains($0.key) }
      return named
    }
    for source in kept { _ = keys(source).current() }
  }

  fileprivate func fetch(_ keys: Keys) {
    let host = keys.source.url.host
    if case .taken = pool.run(.keySets, for: host, { self.run(keys) }) { return }
    keys.end(nil, at: MonotonicClock.seconds)
  }

  private func run(_ keys: Keys) {
    let url = keys.source.url
    var set: WebKeySet?
    var fault = ""
    do {
      let answer = try ACMEClient(context: ServerTrust.context(keys.source.trusted)).get(url)
      if answer.status == 200 { set = try WebKeySet(answer.body) } else { fault = "status \(answer.status)" }
    } catch { fault = "\(error)" }
    let failures = keys.end(set, at: MonotonicClock.seconds)
    // Of the first failure, the second, the fourth and so on.
    guard set == nil, failures & (failures - 1) == 0 else { return }
    state.withLock { $0.log }?.warn("the keys of \(url) could not be fetched (\(failures) in a row): \(fault)")
  }

  /// The keys of one source. Any thread may use them.
  final class Keys: Sendable {
    let source: Source
    private let state = Mutex(KeyState())
    private unowned let owner: FetchedKeys

    fileprivate init(_ source: Source, _ owner: FetchedKeys) {
      self.source = source
      self.owner = owner
    }

    /// The keys, and how often they have changed; nil: there are none that may still be used.
    func current() -> (WebKeySet, version: UInt64)? {
      let (keys, asks) = state.withLock { $0.current(at: MonotonicClock.seconds) }
      if asks { owner.fetch(self) }
      return keys
    }

    /// A token names a key that isn't there.
    func ask() { if state.withLock({ $0.asksAgain(at: MonotonicClock.seconds) }) { owner.fetch(self) } }

    /// Returns how many attempts have failed in a row.
    @discardableResult
    fileprivate func end(_ set: WebKeySet?, at now: Int64) -> Int { state.withLock { $0.end(set, at: now) } }
  }
}

/// When a key set is fetched, and how long it counts: a value without a clock. Times are seconds that only go forward.
struct KeyState {
  /// After so long, the keys are asked for anew, and count meanwhile.
  static let freshness: Int64 = 300
  /// Between two attempts while they fail, and between two for unknown keys, whoever asks: an attacker can name any key.
  static let pause: Int64 = 10
  /// So long do keys count that can't be fetched anew. Whoever keeps their server from answering must not keep a key in
  /// force that its issuer has withdrawn.
  static let longest: Int64 = 86_400

  private var set: WebKeySet?
  private(set) var version: UInt64 = 0
  private var fetched = Int64.min
  private var asked = Int64.min
  private var isAsking = false
  private var failures = 0

  /// The keys that count, and whether they are to be asked for now.
  mutating func current(at now: Int64) -> (keys: (WebKeySet, version: UInt64)?, asks: Bool) {
    if let since = set.map({ _ in now - fetched }), since >= Self.longest {
      set = nil
      version += 1
    }
    let isFresh = set != nil && now - fetched < Self.freshness
    return (set.map { ($0, version) }, isFresh ? false : asksAgain(at: now))
  }

  /// Whether to ask now; then nobody else does until `end`.
  mutating func asksAgain(at now: Int64) -> Bool {
    guard !isAsking, asked == .min || now - asked >= Self.pause else { return false }
    (isAsking, asked) = (true, now)
    return true
  }

  /// An attempt is over. Returns how many have failed in a row.
  mutating func end(_ set: WebKeySet?, at now: Int64) -> Int {
    isAsking = false
    guard let set else {
      failures = min(failures, 1 << 20) + 1
      return failures
    }
    (self.set, fetched, failures) = (set, now, 0)
    version += 1
    return 0
  }
}
