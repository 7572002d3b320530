package import Observability
import Synchronization
package import Transport

/// Whose challenge is remembered, and of which server: state is per user and space, and a space's servers have nonces of
/// their own.
package struct ChallengeKey: Sendable, Hashable {
  package var user: [UInt8]
  package var server: String

  package init(user: [UInt8], server: String) {
    self.user = user
    self.server = server
  }
}

/// Challenges that are answered ahead of being asked again, shared by all workers.
///
/// A nonce's count is handed out here and nowhere else, so that it rises strictly whoever asks. Bounded: what was used
/// longest ago gives way. Holds no password.
package final class ChallengeStore: Sendable {
  private struct Entry {
    var challenge: RememberedChallenge
    /// Sessions that others took the place of: a challenge of theirs that comes late has its count go on.
    var former: [RememberedChallenge.DigestSession] = []
    /// It may be sent before it is asked for.
    var goesAhead = true
    var lastUse: UInt64 = 0

    private static let formerLimit = 4

    init(_ challenge: RememberedChallenge) { self.challenge = challenge }

    /// Makes the offer the one that is answered; false when it is that already.
    mutating func take(_ offer: Offer) -> Bool {
      let isKnown = goesAhead && challenge.isSame(as: offer)
      goesAhead = true
      if challenge.isSame(as: offer) { return !isKnown }
      let known = former.firstIndex { RememberedChallenge.digest($0).isSame(as: offer) }.map { former.remove(at: $0) }
      putAside()
      challenge = known.map { .digest($0) } ?? RememberedChallenge(offer)
      return true
    }

    /// The nonce that comes after this one of the session.
    mutating func advance(_ session: RememberedChallenge.DigestSession, to next: [UInt8]) {
      let used = former.firstIndex { $0.challenge.nonce == next }.map { former.remove(at: $0).used }
      putAside()
      var session = session
      session.challenge.nonce = next
      session.used = used ?? 0
      challenge = .digest(session)
    }

    private mutating func putAside() {
      guard case .digest(let session) = challenge else { return }
      if former.count >= Self.formerLimit { former.removeFirst() }
      former.append(session)
    }
  }

  private struct State {
    var entries: [ChallengeKey: Entry] = [:]
    var clock: UInt64 = 0
    /// A write is due that has not looked yet.
    var isScheduled = false
  }

  static let limit = 4096
  private let state: Mutex<State>
  private let file: ChallengeFile?
  private let lock: ChallengeFile.Lock?
  private let log: Mutex<ErrorLog?>
  /// nil: nothing is written.
  private let pool: BlockingPool?

  /// For the life of the process.
  package init() {
    pool = nil
    state = Mutex(State())
    file = nil
    lock = nil
    log = Mutex(nil)
  }

  /// With what a folder remembers, which is then this store's alone. Blocks.
  ///
  /// Every count that may have been used before is passed over, and the next ones are written down before the first of
  /// them is used. Where they can't be, nothing of the folder is known.
  init(folder: String, pool: BlockingPool, log: ErrorLog?) {
    self.pool = pool
    let file = ChallengeFile(folder: folder)
    var state = State()
    do throws(ChallengeFile.Fault) {
      let (lock, entries) = try file.takeOver(log)
      for (key, challenge) in entries.prefix(Self.limit) {
        state.clock += 1
        state.entries[key] = Entry(challenge)
        state.entries[key]?.lastUse = state.clock
      }
      self.file = file
      self.lock = lock
    } catch {
      log?.error(error.description)
      self.file = nil
      self.lock = nil
    }
    self.log = Mutex(log)
    self.state = Mutex(state)
  }

  package func report(to log: ErrorLog) { self.log.withLock { $0 = log } }

  /// What may be sent ahead of a challenge; nil when none is known. `isAdmitted`: whether it may be answered here.
  package func ahead(_ key: ChallengeKey, isAdmitted: (Offer) -> Bool) -> PreparedAnswer? {
    let (answer, isDue) = state.withLock { state -> (PreparedAnswer?, Bool) in
      guard var entry = state.entries[key], entry.goesAhead, let preview = entry.challenge.preview, isAdmitted(preview)
      else { return (nil, false) }
      return use(&entry, key, &state)
    }
    if isDue { save() }
    return answer
  }

  /// Remembers an offer and answers it; one that is remembered already has its count go on.
  package func answer(_ key: ChallengeKey, _ offer: Offer) -> PreparedAnswer {
    let (answer, isDue) = state.withLock { state -> (PreparedAnswer?, Bool) in
      if state.entries[key] == nil { Self.makeRoom(&state) }
      var entry = state.entries[key] ?? Entry(RememberedChallenge(offer))
      let isNew = entry.take(offer) || state.entries[key] == nil
      let (answer, isDue) = use(&entry, key, &state)
      return (answer, isDue || isNew && schedule(&state))
    }
    if isDue { save() }
    return answer ?? PreparedAnswer(once: offer)
  }

  /// `nextnonce`: the session goes on with another nonce.
  package func advance(_ key: ChallengeKey, from nonce: [UInt8], to next: [UInt8]) {
    let isDue = state.withLock { state in
      guard var entry = state.entries[key], case .digest(let session) = entry.challenge,
        session.challenge.nonce == nonce, next != nonce
      else { return false }
      entry.advance(session, to: next)
      state.entries[key] = entry
      return schedule(&state)
    }
    if isDue { save() }
  }

  /// The server did not take its answer: nothing is sent ahead of the next challenge.
  package func forget(_ key: ChallengeKey) {
    let isDue = state.withLock { state in
      guard state.entries[key]?.goesAhead == true else { return false }
      state.entries[key]?.goesAhead = false
      return schedule(&state)
    }
    if isDue { save() }
  }

  /// A folder remembers, too.
  var keepsFolder: Bool { lock != nil }
  package var count: Int { state.withLock { $0.entries.count } }

  private func use(_ entry: inout Entry, _ key: ChallengeKey, _ state: inout State) -> (PreparedAnswer?, Bool) {
    guard let answer = entry.challenge.use() else {
      state.entries[key] = nil
      return (nil, schedule(&state))
    }
    state.clock += 1
    entry.lastUse = state.clock
    state.entries[key] = entry
    if case .digest(let digest) = answer, digest.count % (ChallengeFile.reserve / 2) == 0 {
      return (answer, schedule(&state))
    }
    return (answer, false)
  }

  private static func makeRoom(_ state: inout State) {
    guard state.entries.count >= limit, let oldest = state.entries.min(by: { $0.value.lastUse < $1.value.lastUse })
    else { return }
    state.entries[oldest.key] = nil
  }

  // MARK: The folder

  private func schedule(_ state: inout State) -> Bool {
    guard file != nil, !state.isScheduled else { return false }
    state.isScheduled = true
    return true
  }

  private func save() {
    let outcome = pool?.run(.challengeFiles, for: file?.path ?? "") { [self] in write() }
    if outcome?.isTaken != true { state.withLock { $0.isScheduled = false } }
  }

  private func write() {
    let entries = state.withLock { state in
      state.isScheduled = false
      return state.entries.filter(\.value.goesAhead).map { ($0.key, $0.value.challenge) }
    }
    do throws(ChallengeFile.Fault) { try file?.write(entries) } catch {
      log.withLock { $0 }?.error(error.description)
    }
  }
}

extension RememberedChallenge {
  /// What would be answered.
  fileprivate var preview: Offer? {
    switch self {
    case .basic(let realm): .basic(realm: realm)
    case .ntlm: .ntlm(message: nil)
    case .digest(let session): .digest(session.challenge)
    }
  }
}

/// All stores of a process; they outlive generations.
package final class ChallengeMemory: Sendable {
  private let pool: BlockingPool
  private let session = ChallengeStore()
  private let permanent = Mutex<[String: ChallengeStore]>([:])

  package init(pool: BlockingPool) { self.pool = pool }

  /// Takes over the folder, so never on an event loop; then `store` finds it. As the user that serves, to whom its files belong.
  package func open(_ persistence: AuthPersistence, log: ErrorLog) {
    if case .permanent = persistence { _ = store(persistence, log: log) }
  }

  /// nil: nothing is remembered. Reads a folder that was not opened before.
  package func store(_ persistence: AuthPersistence, log: ErrorLog?) -> ChallengeStore? {
    switch persistence {
    case .none: return nil
    case .session: return session
    case .permanent(let folder):
      return permanent.withLock { stores in
        let store = stores[folder] ?? ChallengeStore(folder: folder, pool: pool, log: log)
        if let log { store.report(to: log) }
        stores[folder] = store
        return store
      }
    }
  }
}
