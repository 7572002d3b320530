/// How much an HTTP/2 connection reads before other connections of its worker get their turn.
///
/// A kilobyte of frames can begin dozens of requests. A connection that reaches the number of a turn reads in small pieces
/// from then on, until its turns are small again, so that no client holds the worker for long.
struct HTTP2Turn {
  private static let bytes = 1 << 20, requests = 16
  private static let smallest = 512, largest = 16 * 1024

  /// Bytes of the next read.
  private(set) var readSize = largest
  private var taken = 0, first = 0

  /// `requests`: those of the connection so far.
  mutating func begin(requests: Int) {
    if requests &- first < Self.requests { readSize = min(Self.largest, readSize * 2) }
    taken = 0
    first = requests
  }

  mutating func didRead(_ count: Int) { taken += count }

  mutating func isOver(requests: Int) -> Bool {
    if requests &- first >= Self.requests {
      readSize = max(Self.smallest, readSize / 4)
      return true
    }
    return taken >= Self.bytes
  }
}
