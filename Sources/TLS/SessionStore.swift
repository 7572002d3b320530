import COpenSSL
import Crypto
import DequeModule
import Glibc
import Synchronization

/// Sessions of clients, kept by the workers in common so that a client may resume on any of them.
///
/// Why not OpenSSL's cache or stateless tickets: a ticket encodes the session and the peer's certificate and decodes
/// them again at each resumption (docs/decisions/0006-tls-sessions.md); and a kept object can be dropped when trust
/// changes. The store belongs to one generation: after a reload nothing resumes. It is bounded; the oldest go first.
public final class SessionStore: Sendable {
  /// What OpenSSL calls a session id: at most 32 bytes.
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
    // Ids are random: any word of them is a hash.
    func hash(into hasher: inout Hasher) { hasher.combine(words.0) }
  }

  /// What a resumed session goes on by, beside what OpenSSL keeps in it.
  struct Origin: Sendable {
    /// By which the client verified; OpenSSL keeps what was sent, which is something else.
    var chain: VerifiedChain?
    /// Epoch seconds until when the certificates and the revocation lists by which the client was judged count; nil where
    /// none of them ends.
    var judgementEnd: Int64?
    /// SNI of the handshake that made it, lower-case.
    var serverName: [UInt8]
  }

  private struct Entry {
    var session: KeptSession
    var origin: Origin
    /// Epoch seconds: the end of the session, or of the first certificate.
    var validUntil: Int64
    var isSingleUse: Bool
  }

  private struct State {
    var entries: [Key: Entry] = [:]
    var order = Deque<Key>()
  }

  private let state = Mutex(State())
  private let limit: Int

  public static let standardLimit = 1024
  /// The memory that one parsed session takes, measured (docs/OPERATING.md, *Sizing*).
  static let bytesPerSession = 12 * 1024

  public init(limit: Int) { self.limit = max(1, limit) }

  public var count: Int { state.withLock { $0.entries.count } }

  /// Takes the session over. `timeout`: its own end, in epoch seconds.
  func insert(_ session: OpaquePointer, origin: Origin, timeout: Int64) {
    let kept = KeptSession(owning: session)
    var length: UInt32 = 0
    let id = SSL_SESSION_get_id(session, &length)
    guard let key = Key(id, count: Int(length)) else { return }
    let entry = Entry(
      session: kept, origin: origin, validUntil: min(origin.judgementEnd ?? timeout, timeout),
      isSingleUse: SSL_SESSION_get_protocol_version(session) >= TLS1_3_VERSION)
    state.withLock { sessions in
      if sessions.entries.updateValue(entry, forKey: key) == nil { sessions.order.append(key) }
      while sessions.entries.count > limit, let oldest = sessions.order.popFirst() {
        sessions.entries.removeValue(forKey: oldest)
      }
      // Keys of sessions that were used up stay in the order until they come to its front.
      if sessions.order.count > 2 * limit {
        sessions.order.removeAll { sessions.entries[$0] == nil }
      }
    }
  }

  /// The session for an id, with a reference for the caller; nil when there is none that may be used now.
  func take(
    _ id: UnsafePointer<UInt8>?, count: Int, serverName: [UInt8]
  ) -> (session: OpaquePointer, origin: Origin)? {
    guard let key = Key(id, count: count) else { return nil }
    let entry = state.withLock { sessions -> Entry? in
      guard let entry = sessions.entries[key] else { return nil }
      // A TLS 1.2 session belongs to the name it was made for (RFC 6066 §3).
      if !entry.isSingleUse && entry.origin.serverName != serverName { return nil }
      guard entry.validUntil > Int64(time(nil)) else {
        sessions.entries.removeValue(forKey: key)
        return nil
      }
      if entry.isSingleUse { sessions.entries.removeValue(forKey: key) }
      return entry
    }
    return entry.map { ($0.session.retained(), $0.origin) }
  }
}
