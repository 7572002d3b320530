import Synchronization

/// The replay windows of all envelopes, which outlive generations. A key has one window, whichever locations name the
/// key, in whichever order: so no reload opens a message a second time.
public final class ReplayWindows: Sendable {
  /// Keyed by `EnvelopeKeys.Pair.identity`.
  private let windows = Mutex<[[UInt8]: ReplayWindow]>([:])

  public init() {}

  /// `span`: milliseconds, the longest of all locations with these keys.
  public func replayGuard(of keys: EnvelopeKeys, span: UInt64) -> ReplayGuard {
    ReplayGuard(window(of: keys.current), previous: keys.previous.map { window(of: $0) }, span: span)
  }

  private func window(of pair: EnvelopeKeys.Pair) -> ReplayWindow {
    windows.withLock { windows in
      let window = windows[pair.identity] ?? ReplayWindow()
      windows[pair.identity] = window
      return window
    }
  }

  /// Drops the windows that no generation has and in which every message is older than its span. `now`: milliseconds of
  /// the loops' clock.
  public func dropEnded(now: UInt64) {
    windows.withLock { windows in
      for identity in Array(windows.keys) {
        var window = windows.removeValue(forKey: identity)
        let isShared = !isKnownUniquelyReferenced(&window)
        if let window, isShared || !window.isOver(now: now) { windows[identity] = window }
      }
    }
  }

  var count: Int { windows.withLock { $0.count } }
}
