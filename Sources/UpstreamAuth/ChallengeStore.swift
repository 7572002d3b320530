package import Observability
import Synchronization
import Transport

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

/// What a request carries: an offer taken up, with its own count.
package enum PreparedAnswer: Sendable, Equatable {
  case basic(realm: [UInt8])
  case digest(DigestAnswer)
  case ntlm

  /// What it answers.
  package var offer: Offer {
    switch self {
    case .basic(let realm): .basic(realm: realm)
    case .digest(let answer): .digest(answer.challenge)
    case .ntlm: .ntlm(message: nil)
    }
  }

  /// The one answer to an offer that is not remembered.
  package init(once offer: Offer) {
    var remembered = RememberedChallenge(offer)
    self = remembered.use() ?? .ntlm
  }
}

/// A challenge with what was made of it so far.
enum RememberedChallenge: Sendable, Equatable {
  case basic(realm: [UInt8])
  case ntlm
  case digest(DigestSession)

  struct DigestSession: Sendable, Equatable {
    var challenge: DigestChallenge
    /// One for the life of a nonce: -sess makes its key of it.
    var clientNonce: [UInt8]
    var sessionNonce: [UInt8]
    /// The last count that a request carried.
    var used: UInt32
  }

  init(_ offer: Offer) {
    switch offer {
    case .basic(let realm): self = .basic(realm: realm)
    case .ntlm: self = .ntlm
    case .digest(var challenge):
      challenge.isStale = false
      self = .digest(
        DigestSession(
          challenge: challenge, clientNonce: Self.randomNonce(), sessionNonce: challenge.nonce, used: 0))
    }
  }

  /// The next answer; nil once every count of a nonce was used.
  mutating func use() -> PreparedAnswer? {
    switch self {
    case .basic(let realm): return .basic(realm: realm)
    case .ntlm: return .ntlm
    case .digest(var session):
      guard session.used < .max else { return nil }
      session.used += 1
      self = .digest(session)
      return .digest(
        DigestAnswer(
          challenge: session.challenge, count: session.used, clientNonce: session.clientNonce,
          sessionNonce: session.sessionNonce))
    }
  }

  /// Whether a challenge is the one remembered, so that its count goes on.
  func isSame(as offer: Offer) -> Bool {
    switch (self, offer) {
    case (.digest(let session), .digest(let challenge)):
      var plain = challenge
      plain.isStale = false
      return session.challenge == plain && !challenge.isStale
    case (.basic(let realm), .basic(let other)): return realm == other
    case (.ntlm, .ntlm): return true
    default: return false
    }
  }

  private static func randomNonce() -> [UInt8] {
    (0..<2).map { _ in String(UInt64.random(in: .min ... .max), radix: 16) }.joined().utf8Bytes
  }
}

/// Challenges that are answered ahead of being asked again, shared by all workers.
///
/// A nonce's count is handed out here and nowhere else, so that it rises strictly whoever asks. Bounded: what was used
/// longest ago gives way. Holds no password.
package final class ChallengeStore: Sendable {
  private struct Entry {
    var challenge: RememberedChallenge
    var lastUse: UInt64
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
  private let log: Mutex<ErrorLog?>

  /// For the life of the process.
  package init() {
    state = Mutex(State())
    file = nil
    log = Mutex(nil)
  }

  /// With what a folder remembers; every count that may have been used before is passed over.
  init(folder: String, log: ErrorLog?) {
    let file = ChallengeFile(folder: folder)
    self.file = file
    self.log = Mutex(log)
    var state = State()
    switch file.read() {
    case .absent: break
    case .corrupted(let reason):
      log?.warn("\"\(file.path)\" is not used, and made anew: \(reason)")
    case .entries(let entries):
      for (key, challenge) in entries.prefix(Self.limit) {
        state.clock += 1
        state.entries[key] = Entry(challenge: challenge, lastUse: state.clock)
      }
    }
    self.state = Mutex(state)
  }

  package func report(to log: ErrorLog) { self.log.withLock { $0 = log } }

  /// What may be sent ahead of a challenge; nil when none is known. `isAdmitted`: whether it may be answered here.
  package func ahead(_ key: ChallengeKey, isAdmitted: (Offer) -> Bool) -> PreparedAnswer? {
    let (answer, isDue) = state.withLock { state -> (PreparedAnswer?, Bool) in
      guard var entry = state.entries[key], let preview = entry.challenge.preview, isAdmitted(preview) else {
        return (nil, false)
      }
      return use(&entry, key, &state)
    }
    if isDue { save() }
    return answer
  }

  /// Remembers an offer and answers it; one that is remembered already has its count go on.
  package func answer(_ key: ChallengeKey, _ offer: Offer) -> PreparedAnswer {
    let (answer, isDue) = state.withLock { state -> (PreparedAnswer?, Bool) in
      if var known = state.entries[key], known.challenge.isSame(as: offer) { return use(&known, key, &state) }
      if state.entries[key] == nil { Self.makeRoom(&state) }
      var entry = Entry(challenge: RememberedChallenge(offer), lastUse: 0)
      let (answer, _) = use(&entry, key, &state)
      return (answer, schedule(&state))
    }
    if isDue { save() }
    return answer ?? PreparedAnswer(once: offer)
  }

  /// `nextnonce`: the session goes on with another nonce.
  package func advance(_ key: ChallengeKey, from nonce: [UInt8], to next: [UInt8]) {
    let isDue = state.withLock { state in
      guard var entry = state.entries[key], case .digest(var session) = entry.challenge,
        session.challenge.nonce == nonce, next != nonce
      else { return false }
      session.challenge.nonce = next
      session.used = 0
      entry.challenge = .digest(session)
      state.entries[key] = entry
      return schedule(&state)
    }
    if isDue { save() }
  }

  /// The server did not take its answer: nothing is sent ahead of the next challenge.
  package func forget(_ key: ChallengeKey) {
    let isDue = state.withLock { state in
      state.entries.removeValue(forKey: key) != nil && schedule(&state)
    }
    if isDue { save() }
  }

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

  private static let work = BlockingWork("auth-state", lanes: 1, limit: 1024)

  private func schedule(_ state: inout State) -> Bool {
    guard file != nil, !state.isScheduled else { return false }
    state.isScheduled = true
    return true
  }

  private func save() {
    if !Self.work.run({ [self] in write() }) { state.withLock { $0.isScheduled = false } }
  }

  private func write() {
    let entries = state.withLock { state in
      state.isScheduled = false
      return state.entries.map { ($0.key, $0.value.challenge) }
    }
    if let fault = file?.write(entries) { log.withLock { $0 }?.error(fault) }
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
  private let session = ChallengeStore()
  private let permanent = Mutex<[String: ChallengeStore]>([:])

  package init() {}

  /// nil: nothing is remembered. Reads the folder at the first use, so never on an event loop then.
  package func store(_ persistence: AuthPersistence, log: ErrorLog?) -> ChallengeStore? {
    switch persistence {
    case .none: return nil
    case .session: return session
    case .permanent(let folder):
      return permanent.withLock { stores in
        let store = stores[folder] ?? ChallengeStore(folder: folder, log: log)
        if let log { store.report(to: log) }
        stores[folder] = store
        return store
      }
    }
  }
}
