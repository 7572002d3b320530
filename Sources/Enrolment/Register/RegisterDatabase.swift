import Bytes
import Crypto
import Glibc
import PostgreSQL
import Synchronization

/// The database that keeps an authority's register. The folder's file `database` names it by a URI of PostgreSQL, with mode
/// 0600 because that may hold a password.
struct RegisterDatabase: Sendable {
  static let file = "database"

  let address: PostgresAddress
  private let sessions: DatabaseSessions

  /// nil: the folder has no such file, and so keeps its register itself.
  init?(_ folder: AuthorityFolder, _ state: EnrolmentState) throws(AuthorityError) {
    guard let bytes = try folder.read(Self.file) else { return nil }
    let path = folder.file(Self.file)
    let lines = String(decoding: bytes, as: UTF8.self).split { $0 == "\n" || $0 == "\r\n" }
    guard let uri = lines.first, lines.count == 1 else {
      throw AuthorityError("\"\(path)\" has \(lines.count) lines; expected one, with the URI of a database")
    }
    do throws(PostgresError) { address = try PostgresAddress(String(uri)) } catch {
      throw AuthorityError("\"\(path)\": \(error.message)", hint: error.hint)
    }
    sessions = state.sessions
  }

  init(_ address: PostgresAddress, _ sessions: DatabaseSessions) {
    self.address = address
    self.sessions = sessions
  }

  /// For messages.
  var words: String { "the register in \(address.words)" }

  /// Runs `body` in a transaction. If it throws, or if the database does not say that it has committed, nobody may rely on
  /// what it did.
  func transaction<Result>(
    _ body: (RegisterSession) throws(AuthorityError) -> Result
  ) throws(AuthorityError) -> Result {
    let session = RegisterSession(try sessions.begun(address, words), words)
    let result: Result
    do throws(AuthorityError) {
      result = try body(session)
    } catch {
      session.session.rollBack()
      sessions.give(session.session, of: address)
      throw error
    }
    do throws(PostgresError) { try session.session.commit() } catch { throw AuthorityError(error, words) }
    sessions.give(session.session, of: address)
    return result
  }
}

/// A session that is in a transaction.
struct RegisterSession {
  fileprivate let session: PostgresSession
  private let words: String

  fileprivate init(_ session: PostgresSession, _ words: String) {
    self.session = session
    self.words = words
  }

  @discardableResult
  func run(_ statement: String, _ parameters: [String?] = []) throws(AuthorityError) -> [PostgresRow] {
    do throws(PostgresError) { return try session.run(statement, parameters) } catch {
      throw AuthorityError(error, words)
    }
  }
}

/// Sessions that wait for their next use, because to open one takes several round trips. A database that could not be
/// reached is not asked again for a second, so that requests don't queue for it.
final class DatabaseSessions: Sendable {
  // @unchecked: only whoever has taken it from here uses it.
  private struct Idle: @unchecked Sendable { let session: PostgresSession }

  private struct State {
    var idle: [PostgresAddress: [Idle]] = [:]
    var refusals: [PostgresAddress: (until: ContinuousClock.Instant, error: AuthorityError)] = [:]
  }

  private let state = Mutex(State())
  private static let idleLimit = 4

  /// A session in a transaction.
  fileprivate func begun(_ address: PostgresAddress, _ words: String) throws(AuthorityError) -> PostgresSession {
    while let idle = state.withLock({ $0.idle[address]?.popLast() }) {
      do throws(PostgresError) {
        try idle.session.begin()
        return idle.session
      } catch {
        guard error.kind == .lost else { throw AuthorityError(error, words) }
        // It ended while nobody used it, so the others did, too. To find that out of each could take its time-out each time.
        state.withLock { $0.idle[address] = [] }
      }
    }
    let now = ContinuousClock.now
    if let refusal = state.withLock({ $0.refusals[address] }), now < refusal.until { throw refusal.error }
    do throws(PostgresError) {
      let session = try PostgresSession(address)
      try session.begin()
      state.withLock { _ = $0.refusals.removeValue(forKey: address) }
      return session
    } catch {
      let error = AuthorityError(error, words)
      state.withLock { $0.refusals[address] = (.now + .seconds(1), error) }
      throw error
    }
  }

  fileprivate func give(_ session: PostgresSession, of address: PostgresAddress) {
    guard !session.isLost else { return }
    let idle = Idle(session: session)
    state.withLock {
      if $0.idle[address, default: []].count < Self.idleLimit { $0.idle[address, default: []].append(idle) }
    }
  }
}

extension AuthorityError {
  /// `words`: what was asked.
  init(_ error: PostgresError, _ words: String) {
    switch error.kind {
    case .library, .address: self.init("\(words): \(error.message)", hint: error.hint)
    case .lost: self.init("\(words) can't be reached: \(error.message)", .unavailable)
    // 42P01: no such table. 42501: no right.
    case .refused("42P01"):
      self.init(
        "\(words): the database has no register", hint: "`sallyport ca init DIR --store URI` or `ca migrate` makes one")
    case .refused("42501"):
      self.init(
        "\(words): \(error.message)",
        hint:
          "the role needs SELECT, INSERT and UPDATE on the tables sallyport_*, and to make them it must own the schema")
    case .refused(let state):
      // https://www.postgresql.org/docs/current/errcodes-appendix.html: what passes, such as a full disk or a standby.
      let passes = ["08", "25006", "40", "53", "55", "57", "58"].contains { state.hasPrefix($0) }
      self.init("\(words): \(error.message) (SQLSTATE \(state))", passes ? .unavailable : .fault)
    }
  }
}
