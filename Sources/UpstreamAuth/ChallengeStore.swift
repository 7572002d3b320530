import Bytes
package import Observability
import Synchronization
package import Transport

/// The user and server of a remembered challenge: state is per user and space, and each server of a space has its own
/// nonces.
package struct ChallengeKey: Sendable, Hashable {
  package var user: [UInt8]
  package var server: String

  package init(user: [UInt8], server: String) {
    self.user = user
    self.server = server
  }
}

/// Remembers challenges, so that requests can carry an answer before they are challenged. All workers share it.
///
/// Only this store assigns the counts of a nonce, so they increase strictly, whichever worker asks. It is bounded and
/// evicts the least recently used entry. It holds no password.
package final class ChallengeStore: Sendable {
  private struct Entry {
    var challenge: RememberedChallenge
    /// Sessions that newer ones replaced. If a late challenge names one of them, its count continues.
    var former: [RememberedChallenge.DigestSession] = []
    /// Whether an answer may be sent before a challenge.
    var goesAhead = true

    private static let formerLimit = 4

    init(_ challenge: RememberedChallenge) { self.challenge = challenge }

    /// Makes the offer the current challenge. Returns false when it is current already.
    mutating func take(_ offer: Offer) -> Bool {
      let isKnown = goesAhead && challenge.isSame(as: offer)
      goesAhead = true
      if challenge.isSame(as: offer) { return !isKnown }
      let known = former.firstIndex { RememberedChallenge.digest($0).isSame(as: offer) }.map { former.remove(at: $0) }
      putAside()
      challenge = known.map { .digest($0) } ?? RememberedChallenge(offer)
      return true
    }

    /// Adds what a former process knew of the server: no count that it used is used again.
    mutating func add(_ known: RememberedChallenge) {
      guard case .digest(let old) = known else { return }
      if case .digest(var own) = challenge, own.challenge.nonce == old.challenge.nonce {
        own.used = max(own.used, old.used)
        challenge = .digest(own)
      } else if former.count < Self.formerLimit {
        former.insert(old, at: 0)
      }
    }

    /// Moves the session to its next nonce.
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

  /// The directory, while this process holds its lock.
  private struct Folder {
    let file: ChallengeFile
    let lock: ChallengeFile.Lock
  }

  private struct State {
    var entries = LRUTable<ChallengeKey, Entry>()
    /// A write is scheduled and has not read the entries yet.
    var isScheduled = false
    /// nil: in memory only, at least for now.
    var folder: Folder?
    /// A thread tries to take the directory.
    var isTaking = false

    func entry(of key: ChallengeKey) -> Entry? { entries.place(of: key).flatMap { entries[$0] } }
  }

  static let limit = 4096
  private let state: Mutex<State>
  /// The directory to write to; nil: none.
  private let wanted: ChallengeFile?
  private let log: Mutex<ErrorLog?>
  /// nil: nothing is written.
  private let pool: BlockingPool?

  /// Makes a store that exists for the life of the process, without a directory.
  package init() {
    pool = nil
    state = Mutex(State())
    wanted = nil
    log = Mutex(nil)
  }

  /// Makes a store with the challenges of a directory, and takes the directory's lock. Blocks.
  ///
  /// It skips every count that may have been used before, and writes the next ones down before it uses the first of
  /// them. If it can't, or while another process has the lock, it remembers in memory only, until `retry` succeeds.
  init(folder: String, pool: BlockingPool, log: ErrorLog?) {
    self.pool = pool
    wanted = ChallengeFile(folder: folder)
    self.log = Mutex(log)
    state = Mutex(State())
    do throws(ChallengeFile.ParseError) { try takeFolder(log) } catch { log?.error(error.description) }
  }

  /// Tries again to take the directory, on a thread of the pool. The process before this one (USR2) has its lock until it
  /// ends.
  func retry() {
    guard let wanted, let pool else { return }
    let isDue = state.withLock { state in
      guard state.folder == nil, !state.isTaking else { return false }
      state.isTaking = true
      return true
    }
    guard isDue else { return }
    let outcome = pool.run(.stateFiles, for: wanted.path) { [self] in
      let log = log.withLock { $0 }
      do throws(ChallengeFile.ParseError) {
        try takeFolder(log)
        log?.notice("challenges are kept in \"\(wanted.path)\" now")
        save()
      } catch {
        // It was logged at the first time.
        state.withLock { $0.isTaking = false }
      }
    }
    if !outcome.isTaken { state.withLock { $0.isTaking = false } }
  }

  private func takeFolder(_ log: ErrorLog?) throws(ChallengeFile.ParseError) {
    guard let wanted else { return }
    let (lock, entries) = try wanted.takeOver(log)
    state.withLock { state in
      for (key, challenge) in entries.prefix(Self.limit) {
        if let place = state.entries.place(of: key) {
          state.entries[place]?.add(challenge)
        } else if state.entries.count < Self.limit {
          state.entries.insert(Entry(challenge), for: key)
        }
      }
      state.folder = Folder(file: wanted, lock: lock)
      state.isTaking = false
    }
  }

  package func report(to log: ErrorLog) { self.log.withLock { $0 = log } }

  /// Returns the answer to send before a challenge; nil without a remembered challenge. `isAdmitted`: whether the
  /// settings allow it here.
  package func ahead(_ key: ChallengeKey, isAdmitted: (Offer) -> Bool) -> PreparedAnswer? {
    let (answer, isDue) = state.withLock { state -> (PreparedAnswer?, Bool) in
      guard var entry = state.entry(of: key), entry.goesAhead, let preview = entry.challenge.preview,
        isAdmitted(preview)
      else { return (nil, false) }
      return use(&entry, key, &state)
    }
    if isDue { save() }
    return answer
  }

  /// Remembers an offer and answers it. If the offer is remembered already, its count continues.
  package func answer(_ key: ChallengeKey, _ offer: Offer) -> PreparedAnswer {
    let (answer, isDue) = state.withLock { state -> (PreparedAnswer?, Bool) in
      let known = state.entry(of: key)
      if known == nil { _ = state.entries.makeRoom(limit: Self.limit) }
      var entry = known ?? Entry(RememberedChallenge(offer))
      let isNew = entry.take(offer) || known == nil
      let (answer, isDue) = use(&entry, key, &state)
      return (answer, isDue || isNew && schedule(&state))
    }
    if isDue { save() }
    return answer ?? PreparedAnswer(once: offer)
  }

  /// Continues the session with another nonce, from `nextnonce`.
  package func advance(_ key: ChallengeKey, from nonce: [UInt8], to next: [UInt8]) {
    let isDue = state.withLock { state in
      guard let place = state.entries.place(of: key), var entry = state.entries[place],
        case .digest(let session) = entry.challenge,
        session.challenge.nonce == nonce, next != nonce
      else { return false }
      entry.advance(session, to: next)
      state.entries[place] = entry
      return schedule(&state)
    }
    if isDue { save() }
  }

  /// Stops sending answers before a challenge, because the server refused one.
  package func forget(_ key: ChallengeKey) {
    let isDue = state.withLock { state in
      guard let place = state.entries.place(of: key), state.entries[place]?.goesAhead == true else { return false }
      state.entries[place]?.goesAhead = false
      return schedule(&state)
    }
    if isDue { save() }
  }

  /// Whether the store also writes to a directory.
  var keepsFolder: Bool { state.withLock { $0.folder != nil } }
  package var count: Int { state.withLock { $0.entries.count } }

  private func use(_ entry: inout Entry, _ key: ChallengeKey, _ state: inout State) -> (PreparedAnswer?, Bool) {
    guard let answer = entry.challenge.use() else {
      state.entries.remove(key)
      return (nil, schedule(&state))
    }
    state.entries.insert(entry, for: key)
    if case .digest(let digest) = answer, digest.count % (ChallengeFile.reserve / 2) == 0 {
      return (answer, schedule(&state))
    }
    return (answer, false)
  }

  // MARK: The directory

  private func schedule(_ state: inout State) -> Bool {
    guard state.folder != nil, !state.isScheduled else { return false }
    state.isScheduled = true
    return true
  }

  private func save() {
    let outcome = pool?.run(.stateFiles, for: wanted?.path ?? "") { [self] in write() }
    if outcome?.isTaken != true { state.withLock { $0.isScheduled = false } }
  }

  private func write() {
    let (folder, entries) = state.withLock { state in
      state.isScheduled = false
      return (state.folder, state.entries.all.filter(\.value.goesAhead).map { ($0.key, $0.value.challenge) })
    }
    do throws(ChallengeFile.ParseError) { try folder?.file.write(entries) } catch {
      log.withLock { $0 }?.error(error.description)
    }
  }
}

extension RememberedChallenge {
  /// The offer that the next answer would answer.
  fileprivate var preview: Offer? {
    switch self {
    case .basic(let realm): .basic(realm: realm)
    case .ntlm: .ntlm(message: nil)
    case .digest(let session): .digest(session.challenge)
    }
  }
}

/// All stores of a process, which outlive generations.
package final class ChallengeMemory: Sendable {
  private let pool: BlockingPool
  private let session = ChallengeStore()
  private let permanent = Mutex<[String: ChallengeStore]>([:])

  package init(pool: BlockingPool) { self.pool = pool }

  /// Opens the directory, so that `store` finds it later. Blocks, so never call it on an event loop. Call it as the
  /// serving user, who owns the files.
  package func open(_ persistence: AuthPersistence, log: ErrorLog) {
    if case .permanent = persistence { _ = store(persistence, log: log) }
  }

  /// Takes the directories that another process had, or that could not be written to. Call it every few seconds.
  package func retry() {
    for store in permanent.withLock({ Array($0.values) }) { store.retry() }
  }

  /// Returns nil when nothing is remembered. Reads the directory if it was not opened before.
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
