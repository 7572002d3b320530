import Bytes
import Compression
import HTTP
import Observability
import Transport

/// Compresses the body of one response as it comes. In one turn of the loop it compresses a bounded number of bytes, and
/// keeps the rest; what it keeps counts as waiting for the client, so that its source pauses.
final class ResponseCompressor: EventTarget {
  private enum End {
    case open
    case whole(Trailers?)
    /// The upstream's response broke off.
    case broken
    case sent
  }

  private let exchange: Exchange
  private let stream: GzipStream
  private let place: CompressionGauge.Place
  private var kept: WaitingBytes
  private var output = ByteBuffer()
  private var end = End.open
  private var isStopped = false
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
    self.exchange = exchange
    self.stream = stream
    self.place = place
    kept = WaitingBytes(in: exchange.worker.responses)
    super.init(loop: exchange.worker.loop)
  }

  /// Bytes that are not compressed yet.
  var keptBytes: Int { kept.count }

  func send(_ bytes: UnsafeRawBufferPointer) {
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

  /// The response ends with these trailers when all bytes are compressed. False: all were, and the last bytes are sent.
  func keepsEnd(_ trailers: Trailers?) -> Bool {
    if isStopped { return false }
    guard kept.isEmpty else {
      end = .whole(trailers)
      return true
    }
    if case .sent = end { return false }
    end = .sent
    compress(UnsafeRawBufferPointer(start: nil, count: 0), .finish)
    return isStopped
  }

  /// The response breaks off when all bytes are compressed. False: all were, and are sent as far as they go.
  func keepsBreak() -> Bool {
    if isStopped { return false }
    guard kept.isEmpty else {
      end = .broken
      return true
    }
    if case .sent = end { return false }
    end = .sent
    compress(UnsafeRawBufferPointer(start: nil, count: 0), .sync)
    return isStopped
  }

  /// The exchange has ended.
  func stop() {
    guard !isStopped else { return }
    isStopped = true
    kept.release()
    loop.forgetDeadline(of: self)
    place.giveBack()
  }

  /// Compresses more of what is kept, and asks for more, or ends the response, once nothing is.
  override func again() {
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
    switch end {
    case .open:
      if !hasDeadline { setDeadline(in: Self.patience) }
      // If bytes still wait for the client, the stream tells when it has taken them.
      guard exchange.waitingBytes > 0 else { return exchange.handler?.clientDidDrain() ?? () }
      exchange.stream?.watchSending(exchange.location.limits.sendTimeout)
    case .whole(let trailers): exchange.complete(trailers)
    case .broken: BrokenResponse.end(exchange)
    case .sent: break
    }
  }

  override func deadlinePassed() {
    guard !isStopped, kept.isEmpty, case .open = end else { return }
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
    if !made.isEmpty { exchange.sendCoded(made.readable) }
    made.removeAll()
    if case .open = end, !isStopped { made.swap(with: &output) }
  }
}

/// The compression of one exchange's response.
final class ExchangeCompression {
  /// nil: the response isn't compressed.
  private(set) var compressor: ResponseCompressor?

  /// Bytes that wait to be compressed.
  var keptBytes: Int { compressor?.keptBytes ?? 0 }

  func begin(_ compressor: ResponseCompressor) { self.compressor = compressor }

  /// At the end of every exchange.
  @inline(__always)
  func reset() { if compressor != nil { clear() } }

  @inline(never)
  private func clear() {
    compressor?.stop()
    compressor = nil
  }

  /// `$gzip_ratio`, with two decimals; nothing without a compressed response.
  func appendRatio(to output: inout ByteBuffer) {
    guard let compressor, compressor.produced > 0 else { return }
    let hundredths = (compressor.received &* 1000 / compressor.produced &+ 5) / 10
    output.append(decimal: hundredths / 100)
    output.append(0x2E)
    if hundredths % 100 < 10 { output.append(0x30) }
    output.append(decimal: hundredths % 100)
  }
}

/// Counts the responses of a worker that are being compressed. Above the limit, further ones are sent as they are. Together
/// they compress a bounded number of bytes in one turn of the loop.
final class CompressionGauge {
  private let limit: Int
  private(set) var count = 0
  /// The clock of the turn, and the bytes compressed in it.
  private var turn: UInt64 = 0
  private var spent = 0

  /// Bytes that are compressed in one turn, which take zlib a few milliseconds. Bytes that have just come get half of them
  /// at most, so that those of earlier turns have theirs.
  static let turnSize = 262_144

  init(limit: Int) { self.limit = limit }

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
    guard count < limit else { return nil }
    count += 1
    return Place(gauge: self)
  }
}
