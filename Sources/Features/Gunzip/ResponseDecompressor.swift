import Bytes
import Compression
import Observability
import Traffic
import Transport

/// Decompresses the body of one response as it comes. It makes no more bytes than the client takes: what would make more
/// stays compressed, so a few bytes that stand for gigabytes take no memory.
final class ResponseDecompressor: BodyFilter {
  private let stream: GunzipStream
  /// Of zlib, until the exchange ends.
  private var memory: BodyMemoryShare?
  /// Nothing more is taken; filters behind may still have bytes to send.
  private var isBroken = false

  /// Bytes that may wait behind the filter before it makes more.
  private static let watermark = 65_536
  /// Bytes that come out of zlib at once.
  private static let slice = 32_768

  init(_ exchange: Exchange, _ stream: GunzipStream) {
    self.stream = stream
    memory = BodyMemoryShare(of: exchange.worker.responses, wanted: GunzipStream.memory)
    super.init(exchange)
  }

  override func send(_ bytes: UnsafeRawBufferPointer) {
    guard !isBroken else { return }
    kept.append(bytes)
    _ = decompress()
  }

  override func proceed() { if decompress() { didPassKept() } }

  override func again() { proceed() }

  override func didStop() { memory = nil }

  override var holdsBytes: Bool { !kept.isEmpty || stream.hasOutput }

  override func finish(_ end: BodyEnd) {
    if isBroken { return }
    if case .whole = end, !stream.isComplete { return breakOff("ends too early") }
    pass(end)
  }

  /// Passes on what may go now. Returns whether nothing is held any more.
  private func decompress() -> Bool {
    while !isStopped, holdsBytes {
      guard waitingBehind < Self.watermark else {
        // A filter behind this one may have them all; it asks for more by itself.
        if let stream = exchange.stream, stream.waitingBytes > 0 {
          stream.watchSending(exchange.location.limits.sendTimeout)
        }
        return false
      }
      let count = exchange.worker[DecompressionTurn.self].share(of: Self.slice, now: loop.now)
      guard count > 0 else {
        loop.again(self)
        return false
      }
      var made = ByteBuffer()
      do throws(GunzipStream.Fault) {
        kept.consume(try stream.decompress(kept.readable, upTo: count, to: &made))
      } catch {
        if !made.isEmpty { pass(made.readable) }
        if !isStopped { breakOff(error == .damaged ? "is damaged" : "can't be read") }
        return false
      }
      // The exchange may end within the call.
      if !made.isEmpty { pass(made.readable) }
    }
    return !isStopped
  }

  private func breakOff(_ reason: String) {
    exchange.log(.error, "the gzip of the response \(reason)")
    isBroken = true
    kept.release()
    pass(.broken)
  }
}

/// How much the responses of a worker decompress in one turn of the loop: what takes zlib a few milliseconds.
final class DecompressionTurn: WorkerPart {
  private var turn: UInt64 = 0
  private var spent = 0

  static let size = 1 << 20

  /// As many of `wanted` bytes as may come out of zlib now.
  func share(of wanted: Int, now: UInt64) -> Int {
    if turn != now { (turn, spent) = (now, 0) }
    let share = min(wanted, Self.size - spent)
    spent += share
    return share
  }
}
