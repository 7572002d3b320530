import DequeModule
import Transport

/// How much an HTTP/2 connection reads before other connections of its worker get their turn.
///
/// A kilobyte of frames can begin dozens of requests, and a byte of HPACK can stand for kilobytes of a head. So a turn is
/// measured in the work that its frames cause: one for each request, and one for each kilobyte of decoded fields. A
/// connection that exceeds the work of a turn reads in smaller pieces, until its turns are small again, so that no client
/// holds the worker for long.
struct HTTP2Turn {
  /// Requests and kilobytes of fields.
  static let work = 32
  private static let bytes = 1 << 20
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

/// Divides the time of a worker among its HTTP/2 connections.
///
/// Each has its `HTTP2Turn`, but dozens of turns in one batch of events would keep everybody else waiting. So all
/// connections together have a bound for a batch, and those that come later wait in a line for the next batches.
final class HTTP2Line: EventTarget {
  /// The work of one batch, in the units of `HTTP2Turn`: some milliseconds.
  private static let work = 64

  private var left = work
  /// Retained, because a connection may close while it waits.
  private var line = Deque<HTTP2Connection>()
  private var isCalling = false

  /// Whether the connection may take a turn now. If not, it is called in a later batch.
  func admits(_ connection: HTTP2Connection) -> Bool {
    if isCalling || left > 0 && line.isEmpty { return true }
    wait(connection)
    return false
  }

  /// Calls `takeTurn` when those that came earlier have had theirs.
  func wait(_ connection: HTTP2Connection) {
    guard !connection.isInLine else { return }
    connection.isInLine = true
    line.append(connection)
    if !isCalling { loop.again(self) }
  }

  /// A turn is over, in which a client caused so much work.
  func didWork(_ work: Int) {
    guard work > 0 else { return }
    left -= work
    if !isCalling { loop.again(self) }
  }

  override func again() {
    left = Self.work
    isCalling = true
    // A connection that has more to do than a turn waits behind the others again.
    for _ in 0..<line.count where left > 0 {
      guard let connection = line.popFirst() else { break }
      connection.isInLine = false
      connection.takeTurn()
      loop.cork.flush()
    }
    isCalling = false
    if line.isEmpty { left = Self.work } else { loop.again(self) }
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
