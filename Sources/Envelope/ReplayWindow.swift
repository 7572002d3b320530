import DequeModule
import Synchronization

/// Remembers the IVs of recent authentic envelopes, opened or sealed. An envelope with a remembered IV is a replay.
/// Signed requests have a window of their own, for their nonces.
///
/// All workers share it. A reload keeps it, and it is lost with the process. It is bounded: while it is full, no new
/// envelope is opened or sealed, because replays could not be detected. Only a client with the keys, or one that gets a
/// sealed response for each request, can fill it.
public final class ReplayWindow: Sendable {
  package enum Novelty {
    case new, seen
    /// The window is full.
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
  /// The default size: about 60 MiB. With 5 minutes, it allows 3500 messages a second, including responses.
  public static let standardLimit = 1 << 20

  public init(limit: Int = standardLimit) {
    memory = Mutex(Memory())
    self.limit = limit
  }

  /// Looks an IV up and, if `remembers` is true, adds it, in one atomic step: of two equal IVs exactly one is new.
  ///
  /// `now` and `span`: milliseconds. A reload may change the span.
  package func look(_ octets: [UInt8], now: UInt64, span: UInt64, remembers: Bool) -> Novelty {
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

/// `message_envelope_replay_window`: the window, and how long it remembers.
public struct ReplayGuard: Sendable {
  let window: ReplayWindow
  let span: UInt64

  /// `span`: milliseconds.
  public init(_ window: ReplayWindow, span: UInt64) {
    self.window = window
    self.span = span
  }
}
