import Glibc
import Synchronization

/// The lines at `error` and above that error logs got last, and how many there were: for the status page and the API, because
/// at night the log may be on another machine.
///
/// Bounded: 256 lines of about 512 bytes. A line that says the same as the one before raises its count.
public final class RecentErrors: Sendable {
  package struct Entry: Sendable, Equatable {
    /// Of the last of them, in seconds since 1970.
    package var time: Int64
    package let level: LogLevel
    package let text: String
    package var count = 1
  }

  private struct State {
    var ring: [Entry] = []
    /// Where the oldest is, once the ring is full.
    var next = 0
    var total: UInt64 = 0

    var newest: Int { ring.isEmpty ? 0 : (next + ring.count - 1) % ring.count }
  }

  package static let limit = 256
  /// More bytes of a line are not kept.
  package static let longest = 512

  private let state = Mutex(State())

  package init() {}

  package func note(_ level: LogLevel, _ message: String, at now: Int64 = Int64(time(nil))) {
    let isLong = message.utf8.count > Self.longest
    // The index is rounded down to a whole character.
    let text = isLong ? message[..<message.utf8.index(message.startIndex, offsetBy: Self.longest)] + "…" : message[...]
    state.withLock { state in
      state.total &+= 1
      let newest = state.newest
      if state.ring.indices.contains(newest), state.ring[newest].text == text, state.ring[newest].level == level {
        state.ring[newest].time = now
        state.ring[newest].count &+= 1
      } else if state.ring.count < Self.limit {
        state.ring.append(Entry(time: now, level: level, text: String(text)))
      } else {
        state.ring[state.next] = Entry(time: now, level: level, text: String(text))
        state.next = (state.next + 1) % Self.limit
      }
    }
  }

  /// The last line, and how many there were since the start; nil: there was none.
  package var last: (entry: Entry, total: UInt64)? {
    state.withLock { $0.ring.indices.contains($0.newest) ? ($0.ring[$0.newest], $0.total) : nil }
  }

  /// The oldest first.
  package var all: [Entry] { state.withLock { Array($0.ring[$0.next...] + $0.ring[..<$0.next]) } }
}
