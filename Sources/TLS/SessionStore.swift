import COpenSSL
import Crypto
import DequeModule
import Glibc
import Synchronization

/// Keeps clients' sessions for all workers, so that a client may resume on any of them.
///
/// It replaces OpenSSL's cache and stateless tickets for two reasons. A ticket encodes the session and the peer's
/// certificate, and each resumption decodes them again (docs/decisions/0006-tls-sessions.md). And the server can drop a
/// kept object when trust changes.
///
/// The store belongs to one generation: after a reload no session is resumed. The store is bounded; it evicts the
/// oldest sessions first.
public final class SessionStore: Sendable {
  /// The session id of OpenSSL: at most 32 bytes.
  struct Key: Hashable {
    var words: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
    var count: Int

    init?(_ bytes: UnsafePointer<UInt8>?, count: Int) {
      guard let bytes, count > 0, count <= 32 else { return nil }
      self.count = count
      withUnsafeMutableBytes(of: &words) { $0.copyMemory(from: .init(start: bytes, count: count)) }
    }

    static func == (left: Key, right: Key) -> Bool {
      left.words == right.words && left.count == right.count
    }
    // Ids are random, so any word of an id is a hash.
    func hash(into hasher: inout Hasher) { hasher.combine(words.0) }
  }

  /// What a resumed session needs besides what OpenSSL keeps in the session.
  struct Origin: Sendable {
    /// By what the client was verified. OpenSSL keeps the chain that the client sent, which may differ.
    var client: VerifiedClient?
    /// When the first of the client's certificates, or of the CRLs that it was checked against, expires, or another CRL
    /// or CA begins, in epoch seconds; nil when none of these comes.
    var judgementEnd: Int64?
    /// The SNI of the handshake that made the session, in lower case.
    var serverName: [UInt8]
    /// Whatever resumes the session, its lifetime counts from here.
    var proof: KeyProof
  }

  private struct Entry {
    var session: KeptSession
    var origin: Origin
    /// Seconds for which a session may be resumed after its proof (`ssl_session_timeout`).
    var lifetime: Int
    var isSingleUse: Bool
  }

  private struct State {
    var entries: [Key: Entry] = [:]
    var order = Deque<Key>()
  }

  private let state = Mutex(State())
  private let limit: Int

  public static let standardLimit = 1024
  /// The measured memory of one parsed session (docs/operating/run.md, *Sizing*).
  static let bytesPerSession = 12 * 1024

  public init(limit: Int) { self.limit = max(1, limit) }

  public var count: Int { state.withLock { $0.entries.count } }

  /// Stores the session and takes ownership of it. `lifetime`: for how many seconds after its proof it may be resumed.
  func insert(_ session: OpaquePointer, origin: Origin, lifetime: Int) {
    let kept = KeptSession(owning: session)
    var length: UInt32 = 0
    let id = SSL_SESSION_get_id(session, &length)
    guard let key = Key(id, count: Int(length)) else { return }
    let entry = Entry(
      session: kept, origin: origin, lifetime: lifetime,
      isSingleUse: SSL_SESSION_get_protocol_version(session) >= TLS1_3_VERSION)
    state.withLock { sessions in
      if sessions.entries.updateValue(entry, forKey: key) == nil { sessions.order.append(key) }
      while sessions.entries.count > limit, let oldest = sessions.order.popFirst() {
        sessions.entries.removeValue(forKey: oldest)
      }
      // Keys of single-use sessions that were used stay in `order` until they reach its front.
      if sessions.order.count > 2 * limit {
        sessions.order.removeAll { sessions.entries[$0] == nil }
      }
    }
  }

  /// Returns the session for an id, with a reference for the caller; nil when no session may be used now. `ofName`: the
  /// session must have been made under this name, whatever its version.
  func take(
    _ id: UnsafePointer<UInt8>?, count: Int, serverName: [UInt8], ofName: Bool = false, at now: KeyProof.Moment
  ) -> (session: OpaquePointer, origin: Origin)? {
    guard let key = Key(id, count: count) else { return nil }
    let entry = state.withLock { sessions -> Entry? in
      guard let entry = sessions.entries[key] else { return nil }
      // A TLS 1.2 session may be resumed only under the name it was made for (RFC 6066 §3).
      if ofName || !entry.isSingleUse, entry.origin.serverName != serverName { return nil }
      guard entry.origin.judgementEnd.map({ $0 > now.time }) ?? true,
        entry.origin.proof.remaining(of: entry.lifetime, at: now) > 0
      else {
        sessions.entries.removeValue(forKey: key)
        return nil
      }
      if entry.isSingleUse { sessions.entries.removeValue(forKey: key) }
      return entry
    }
    return entry.map { ($0.session.retained(), $0.origin) }
  }
}
