import DequeModule
import Synchronization

/// The IVs of authentic envelopes of late, opened or sealed: one of them again is a replay.
///
/// Shared by all workers, and taken over by a reload; gone with the process. Bounded: while it is full, nothing new is
/// let in or out, for nobody knows what was seen. Only who has the keys, or gets an answer sealed for each, can fill it.
public final class ReplayWindow: Sendable {
  enum Novelty {
    case new, seen
    /// It can remember no more.
    case unknown
  }

  /// Up to 16 octets, and their count.
  private struct IV: Hashable {
    var high: UInt64 = 0
    var low: UInt64 = 0
    var count: UInt8

    init(_ octets: [UInt8]) {
      count = UInt8(truncatingIfNeeded: octets.count)
      for octet in octets {
        high = high << 8 | low >> 56
        low = low << 8 | UInt64(octet)
      }
    }
  }

  private struct Memory {
    var known: Set<IV> = []
    /// The oldest first.
    var order: Deque<(iv: IV, at: UInt64)> = []
  }

  private let memory: Mutex<Memory>
  private let limit: Int
  /// About 60 MiB; at 5 minutes 3500 messages a second, answers too.
  public static let standardLimit = 1 << 20

  public init(limit: Int = standardLimit) {
    memory = Mutex(Memory())
    self.limit = limit
  }

  /// Whether it is there, and with `remembers` puts it there, in one step: of two alike one is new.
  /// `now` and `span`: milliseconds; a reload may bring another span.
  func look(_ octets: [UInt8], now: UInt64, span: UInt64, remembers: Bool) -> Novelty {
    let iv = IV(octets)
    return memory.withLock { memory in
      while let oldest = memory.order.first, oldest.at &+ span < now {
        memory.known.remove(oldest.iv)
        memory.order.removeFirst()
      }
      if memory.known.contains(iv) { return .seen }
      guard remembers else { return .new }
      guard memory.order.count < limit else { return .unknown }
      memory.known.insert(iv)
      memory.order.append((iv, now))
      return .new
    }
  }
}

/// `message_envelope_replay_window`: what is remembered, and for how long.
public struct ReplayGuard: Sendable {
  let window: ReplayWindow
  let span: UInt64

  /// `span`: milliseconds.
  public init(_ window: ReplayWindow, span: UInt64) {
    self.window = window
    self.span = span
  }
}
