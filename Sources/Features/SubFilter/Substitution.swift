import Bytes
import Forward
import Traffic
import Transport

/// Replaces texts in the body of one response as it comes.
///
/// A short text can become a long one, so the body is read only as fast as the client takes what comes of it, and one turn of
/// the loop makes a bounded number of bytes.
final class Substitution: BodyFilter {
  private var replacer: TextReplacer
  private let replacements: [CompiledTemplate]
  /// The values of replacements that have been used, by the number of the text.
  private var values: [[UInt8]?]

  /// Bytes of the response that may wait behind this filter before it keeps what comes.
  private static let watermark = 65_536
  /// Bytes of those that are copied to be looked at.
  private static let slice = 16_384
  /// Bytes that come of the body in one turn of the loop.
  private static let turnSize = 1 << 20
  /// The clock of the turn, and the bytes that have come of the body in it.
  private var turn: UInt64 = 0
  private var made = 0

  init(_ exchange: Exchange, _ replacer: TextReplacer, _ replacements: [CompiledTemplate]) {
    self.replacer = replacer
    self.replacements = replacements
    values = Array(repeating: nil, count: replacements.count)
    super.init(exchange)
  }

  override func send(_ bytes: UnsafeRawBufferPointer) {
    guard kept.isEmpty else { return kept.append(bytes) }
    let count = replace(bytes)
    if !isStopped, count < bytes.count { kept.append(UnsafeRawBufferPointer(rebasing: bytes.dropFirst(count))) }
  }

  override func proceed() {
    while !isStopped, !kept.isEmpty {
      var piece = ByteBuffer()
      piece.append(UnsafeRawBufferPointer(rebasing: kept.readable.prefix(Self.slice)))
      let count = replace(piece.readable)
      guard !isStopped else { return }
      kept.consume(count)
      if count < piece.count { return }
    }
    if !isStopped { didPassKept() }
  }

  override func again() {
    guard !isStopped, !kept.isEmpty else { return }
    (turn, made) = (loop.now, 0)
    proceed()
  }

  override func finish(_ end: BodyEnd) {
    var output = ByteBuffer(), isWhole = false
    while !isWhole, !isStopped {
      isWhole = replacer.finish(to: &output, room: Self.watermark) { value($0) }
      if !output.isEmpty { pass(output.readable) }
      output.removeAll()
    }
    if !isStopped { pass(end) }
  }

  /// Passes on what comes of the bytes, as long as little of it waits. Returns how many bytes it has used.
  private func replace(_ bytes: UnsafeRawBufferPointer) -> Int {
    var output = ByteBuffer(), used = 0
    while used < bytes.count, !isStopped {
      if turn != loop.now { (turn, made) = (loop.now, 0) }
      if made > Self.turnSize {
        loop.again(self)
        break
      }
      if exchange.waitingBytes - kept.count > Self.watermark {
        if let stream = exchange.stream, stream.waitingBytes > 0 {
          stream.watchSending(exchange.location.limits.sendTimeout)
        }
        break
      }
      let rest = UnsafeRawBufferPointer(rebasing: bytes.dropFirst(used))
      used += replacer.replace(rest, to: &output, room: Self.watermark) { value($0) }
      made += output.count
      if !output.isEmpty { pass(output.readable) }
      output.removeAll()
    }
    return used
  }

  /// As in nginx, a replacement has the value that it has when its text is found for the first time.
  private func value(_ text: Int) -> [UInt8] {
    if let known = values[text] { return known }
    let value = replacements[text].bytes(exchange)
    values[text] = value
    return value
  }
}
