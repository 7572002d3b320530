import Bytes
import Compression
import Forward
import HTTP
import Observability
package import Traffic
import Transport

/// Compresses the body of one response as it comes. In one turn of the loop it compresses a bounded number of bytes, and
/// keeps the rest.
package final class ResponseCompressor: BodyFilter {
  private let stream: GzipStream
  private let place: CompressionGauge.Place
  private var output = ByteBuffer()
  /// The clock of the turn, and the bytes compressed in it.
  private var turn: UInt64 = 0
  private var spent = 0
  /// Bytes before and after, for `$gzip_ratio`.
  private(set) var received: UInt64 = 0
  private(set) var produced: UInt64 = 0

  /// Bytes that are compressed in one turn.
  private static let slice = 65_536
  /// Milliseconds until the client gets all that has come, if no more comes: an event stream must not stall.
  private static let patience = 10

  init(_ exchange: Exchange, _ stream: GzipStream, _ place: CompressionGauge.Place) {
    self.stream = stream
    self.place = place
    super.init(exchange)
  }

  package override func send(_ bytes: UnsafeRawBufferPointer) {
    received &+= UInt64(bytes.count)
    if turn != loop.now { (turn, spent) = (loop.now, 0) }
    let room = kept.isEmpty ? Self.slice - spent : 0
    let count = place.share(of: min(bytes.count, room), now: loop.now, isNew: true)
    kept.append(UnsafeRawBufferPointer(rebasing: bytes.dropFirst(count)))
    spent += count
    if !kept.isEmpty { loop.again(self) }
    guard count > 0 else { return }
    compress(UnsafeRawBufferPointer(rebasing: bytes.prefix(count)), .none)
    if !isStopped, !hasDeadline { setDeadline(in: Self.patience) }
  }

  package override func finish(_ end: BodyEnd) {
    let flush: GzipStream.Flush = if case .whole = end { .finish } else { .sync }
    compress(UnsafeRawBufferPointer(start: nil, count: 0), flush)
    if !isStopped { pass(end) }
  }

  package override func didStop() { place.giveBack() }

  /// Compresses more of what is kept.
  package override func again() {
    guard !isStopped, !kept.isEmpty else { return }
    var piece = ByteBuffer()
    let count = place.share(of: min(kept.count, Self.slice), now: loop.now, isNew: false)
    guard count > 0 else { return loop.again(self) }
    piece.append(UnsafeRawBufferPointer(rebasing: kept.readable[..<count]))
    kept.consume(count)
    (turn, spent) = (loop.now, count)
    if !kept.isEmpty { loop.again(self) } else { kept.release() }
    compress(piece.readable, .none)
    guard !isStopped, kept.isEmpty else { return }
    if isOpen, !hasDeadline { setDeadline(in: Self.patience) }
    didPassKept()
  }

  package override func deadlinePassed() {
    guard !isStopped, kept.isEmpty, isOpen else { return }
    compress(UnsafeRawBufferPointer(start: nil, count: 0), .sync)
  }

  private func compress(_ bytes: UnsafeRawBufferPointer, _ flush: GzipStream.Flush) {
    var made = ByteBuffer()
    made.swap(with: &output)
    guard stream.compress(bytes, flush, to: &made) else {
      exchange.log(.alert, "zlib failed")
      return exchange.end(.upstreamBroke)
    }
    produced &+= UInt64(made.count)
    // The exchange may end within the call.
    if !made.isEmpty { pass(made.readable) }
    made.removeAll()
    if isOpen, !isStopped { made.swap(with: &output) }
  }
}

/// Counts the responses of a worker that are being compressed. Above the limit, further ones are sent as they are. Together
/// they compress a bounded number of bytes in one turn of the loop.
final class CompressionGauge: WorkerPart {
  private(set) var count = 0
  /// The clock of the turn, and the bytes compressed in it.
  private var turn: UInt64 = 0
  private var spent = 0

  /// Bytes that are compressed in one turn, which take zlib a few milliseconds. Bytes that have just come get half of them
  /// at most, so that those of earlier turns have theirs.
  static let turnSize = 262_144

  /// Responses that are compressed at once: 68 MiB of zlib's memory.
  static let limit = 256

  /// One of the places; whoever has it gives it back once.
  struct Place {
    fileprivate let gauge: CompressionGauge
    func giveBack() { gauge.count -= 1 }
    /// How many of `wanted` bytes may be compressed now.
    func share(of wanted: Int, now: UInt64, isNew: Bool) -> Int { gauge.share(of: wanted, now: now, isNew: isNew) }
  }

  private func share(of wanted: Int, now: UInt64, isNew: Bool) -> Int {
    if turn != now { (turn, spent) = (now, 0) }
    let share = min(wanted, max(0, (isNew ? Self.turnSize / 2 : Self.turnSize) - spent))
    spent += share
    return share
  }

  /// nil: no place is free.
  func take() -> Place? {
    guard count < Self.limit else { return nil }
    count += 1
    return Place(gauge: self)
  }
}
