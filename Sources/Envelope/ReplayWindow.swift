import DequeModule
import Synchronization

/// Remembers the IVs of recent authentic envelopes, opened or sealed. An envelope with a remembered IV is a replay.
/// Signed requests have a window of their own, for their nonces.
///
/// All workers and generations share it (`ReplayWindows`), and it is lost with the process. It is bounded: while it is
/// full, no new envelope is opened or sealed, because replays could not be detected. Only a client with the keys, or one
/// that gets a sealed response for each request, can fill it.
public final class ReplayWindow: Sendable {
  package enum Novelty {
    case new, seen
    /// The message is older than what the window still knows: nobody can tell whether it was seen.
    case forgotten
    /// The window is full.
    case unknown
  }

  /// Up to 16 octets. Fewer than 16 have their count in the first octet.
  private struct IV: Hashable {
    var high: UInt64 = 0
    var low: UInt64 = 0

    init(_ octets: [UInt8]) {
      for octet in octets {
        high = high << 8 | low >> 56
        low = low << 8 | UInt64(octet)
      }
      if octets.count < 16 { high |= UInt64(truncatingIfNeeded: octets.count) << 56 }
    }
  }

  private struct Memory {
    var known: Set<IV> = []
    /// The oldest first; those with a time of their own are a little out of order.
    var order: Deque<(iv: IV, at: UInt64)> = []
    /// The longest span that was ever asked for. A reload may shorten it and lengthen it again.
    var span: UInt64 = 0
    /// The latest time of what was forgotten; nil: nothing was.
    var forgottenUntil: UInt64?

    mutating func forget(olderThan span: UInt64, now: UInt64) {
      while let oldest = order.first, now > oldest.at, now - oldest.at > span {
        known.remove(oldest.iv)
        order.removeFirst()
        forgottenUntil = max(forgottenUntil ?? 0, oldest.at)
      }
    }
  }

  private let memory: Mutex<Memory>
  private let limit: Int
  /// The default size: about 60 MiB. With 5 minutes, it allows 3500 messages a second, including responses.
  public static let standardLimit = 1 << 20
  /// Milliseconds by which two readings of a message's age may differ, because it has whole seconds.
  private static let grain: UInt64 = 1000

  public init(limit: Int = standardLimit) {
    memory = Mutex(Memory())
    self.limit = limit
  }

  /// Looks an IV up and, if `remembers` is true, adds it, in one atomic step: of two equal IVs exactly one is new.
  ///
  /// `now` and `span`: milliseconds. A reload may change the span; what is still known stays known for the longest span
  /// there was, as far as there is room. `made`: when the message was made, on the clock of `now`; nil if it doesn't say.
  package func look(
    _ octets: [UInt8], now: UInt64, span: UInt64, made: UInt64? = nil, remembers: Bool
  ) -> Novelty {
    let iv = IV(octets)
    return memory.withLock { memory in
      memory.span = max(memory.span, span)
      memory.forget(olderThan: memory.span, now: now)
      if memory.known.contains(iv) { return .seen }
      if let made, let until = memory.forgottenUntil, made <= until || made - until <= Self.grain { return .forgotten }
      guard remembers else { return .new }
      if memory.order.count >= limit { memory.forget(olderThan: span, now: now) }
      guard memory.order.count < limit else { return .unknown }
      memory.known.insert(iv)
      memory.order.append((iv, max(now, made ?? now)))
      return .new
    }
  }

  /// Whether nothing in the window could be a replay any more.
  func isOver(now: UInt64) -> Bool {
    memory.withLock { memory in
      memory.forget(olderThan: memory.span, now: now)
      return memory.order.isEmpty
    }
  }
}

/// `message_envelope_replay_window`: the windows of a location's keys, and how long they remember.
public struct ReplayGuard: Sendable {
  /// Of the current keys.
  let window: ReplayWindow
  /// Of the previous keys; nil without any.
  let previous: ReplayWindow?
  let span: UInt64

  /// `span`: milliseconds.
  public init(_ window: ReplayWindow, previous: ReplayWindow? = nil, span: UInt64) {
    self.window = window
    self.previous = previous
    self.span = span
  }
}
