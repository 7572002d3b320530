import Bytes

/// Bytes of a response that wait for their client. The gauge counts the memory that they take, also of bytes that have
/// gone while others of the same piece wait.
struct WaitingBytes: ~Copyable {
  private var buffer = ByteBuffer()
  private let gauge: BodyGauge
  private var counted = 0

  /// Memory that an empty buffer keeps for the next bytes.
  private static let storageKept = 16 * 1024

  init(in gauge: BodyGauge) { self.gauge = gauge }

  deinit { gauge.giveBack(counted) }

  var count: Int { buffer.count }
  var isEmpty: Bool { buffer.isEmpty }
  /// Valid until the next mutating call.
  var readable: UnsafeRawBufferPointer { buffer.readable }

  mutating func append(_ bytes: UnsafeRawBufferPointer) {
    buffer.append(bytes)
    countStorage()
  }

  /// Removes `n` bytes from the front.
  mutating func consume(_ n: Int) {
    buffer.consume(n)
    if buffer.isEmpty, buffer.storageSize > Self.storageKept { release() }
  }

  /// Removes all bytes and frees the memory.
  mutating func release() {
    buffer.release()
    countStorage()
  }

  private mutating func countStorage() {
    guard buffer.storageSize != counted else { return }
    gauge.giveBack(counted)
    counted = buffer.storageSize
    gauge.take(counted)
  }
}

/// Bytes that a gauge counts until nothing refers to this any more: those that a thread reads for a response, and those
/// that it has read and the loop has not taken yet. For objects of one loop.
final class GaugeShare {
  private let gauge: BodyGauge
  let count: Int

  /// As many bytes as `wanted`, or fewer while the gauge's limit is reached.
  init(of gauge: BodyGauge, wanted: Int) {
    self.gauge = gauge
    count = gauge.bound(wanted)
    gauge.take(count)
  }

  deinit { gauge.giveBack(count) }
}
