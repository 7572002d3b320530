import Bytes
import Crypto
import Synchronization

/// The keys of session tickets that change while contexts use them (`ssl_session_ticket_key store:NAME`): the first one
/// seals, and all of them open. They are in memory alone.
public final class TicketKeyRing: Sendable {
  private let keys: Mutex<[TicketKey]>

  /// Begins with a key of its own, which no other machine has.
  public init() { keys = Mutex(Self.own()) }

  public var current: [TicketKey] { keys.withLock { $0 } }

  /// Takes other keys, at least one: a ring without keys could seal nothing.
  public func replace(_ fresh: [TicketKey]) {
    if !fresh.isEmpty { keys.withLock { $0 = fresh } }
  }

  /// Forgets all keys for one of its own: nobody knows any more whether others have those, or for how long.
  public func forget() { replace(Self.own()) }

  /// No key if the system gives no random bytes: no ticket is sealed then.
  private static func own() -> [TicketKey] {
    SystemRandom.bytes(80).flatMap { TicketKey(SecretBytes($0)) }.map { [$0] } ?? []
  }
}

/// The rings of the process, by the store that has their keys. They outlive generations.
public final class TicketKeyRings: Sendable {
  private let rings = Mutex<[String: TicketKeyRing]>([:])

  public init() {}

  public func ring(of store: String) -> TicketKeyRing {
    rings.withLock { rings in
      let ring = rings[store] ?? TicketKeyRing()
      rings[store] = ring
      return ring
    }
  }
}
