import Transport

/// How much an HTTP/2 connection reads before other connections of its worker get their turn.
///
/// A kilobyte of frames can begin dozens of requests, and a byte of HPACK can stand for kilobytes of a head. So a turn is
/// measured in the work that its frames cause: one for each request, and one for each kilobyte of decoded fields. A
/// connection that exceeds the work of a turn reads in smaller pieces, until its turns are small again, so that no client
/// holds the worker for long.
struct HTTP2Turn {
  private static let bytes = 1 << 20, work = 32
  private static let smallest = 64, largest = 16 * 1024
  /// The largest read of a connection whose streams are reset again and again.
  private static let strained = 512

  /// Bytes of the next read.
  private(set) var readSize = largest
  private(set) var taken = 0
  private var first = 0

  /// `work`: that of the connection so far.
  mutating func begin(work: Int, isStrained: Bool) {
    if work &- first < Self.work { readSize = min(Self.largest, readSize * 2) }
    if isStrained { readSize = min(readSize, Self.strained) }
    taken = 0
    first = work
  }

  mutating func didRead(_ count: Int) { taken += count }

  mutating func isOver(work: Int) -> Bool {
    let done = work &- first
    guard done >= Self.work else { return taken >= Self.bytes }
    readSize = max(Self.smallest, readSize / (done >= 4 * Self.work ? 8 : 2))
    return true
  }
}

/// Keeps a connection from reading for a while, after its client had many streams reset.
///
/// A client that opens and resets streams causes more work than it does. Until the bound on resets ends its connection, it
/// gets a small part of the worker's time.
final class HTTP2Pause: EventTarget {
  private static let milliseconds = 20

  // Not retained: the connection owns this object, and calls `end` before it goes.
  private unowned(unsafe) let connection: HTTP2Connection
  private(set) var isOn = false

  init(_ connection: HTTP2Connection, _ loop: EventLoop) {
    self.connection = connection
    super.init(loop: loop)
  }

  func begin() {
    isOn = true
    setDeadline(in: Self.milliseconds)
  }

  override func deadlinePassed() {
    isOn = false
    connection.streamIsReadable()
  }

  func end() { loop.forgetDeadline(of: self) }
}
