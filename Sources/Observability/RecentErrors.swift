import Synchronization

/// The lines at `error` and above that error logs got last, for the API: at night, the log may be on another machine.
///
/// Bounded: 256 lines of at most 512 bytes. A line that says the same as the one before raises its count.
package final class RecentErrors: Sendable {
  package struct Entry: Sendable, Equatable {
    /// Of the last of them, in seconds since 1970.
    package let time: Int64
    package let level: LogLevel
    package let text: String
    package var count = 1
  }

  package static let limit = 256
  package static let longest = 512
  /// The oldest comes first from `next` on, once the ring is full.
  private let ring = Mutex<(entries: [Entry], next: Int)>(([], 0))

  package init() {}

  package func note(_ level: LogLevel, _ message: String, at time: Int64) {
    let text =
      message.utf8.count <= Self.longest ? message : String(decoding: message.utf8.prefix(Self.longest), as: UTF8.self)
    ring.withLock { ring in
      let last = ring.entries.isEmpty ? 0 : (ring.next &+ ring.entries.count &- 1) % ring.entries.count
      if ring.entries.indices.contains(last), ring.entries[last].text == text, ring.entries[last].level == level {
        ring.entries[last] = Entry(time: time, level: level, text: text, count: ring.entries[last].count &+ 1)
      } else if ring.entries.count < Self.limit {
        ring.entries.append(Entry(time: time, level: level, text: text))
      } else {
        ring.entries[ring.next] = Entry(time: time, level: level, text: text)
        ring.next = (ring.next &+ 1) % Self.limit
      }
    }
  }

  /// The oldest first.
  package func all(since time: Int64) -> [Entry] {
    ring.withLock { ring in ring.entries[ring.next...] + ring.entries[..<ring.next] }.filter { $0.time >= time }
  }
}
