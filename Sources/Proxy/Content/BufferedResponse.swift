import Bytes

/// The body of an upstream's response, held until it can be sealed. Its bytes count in the worker's gauge, but the
/// gauge never refuses them, because the upstream has already done its work. New requests are refused instead.
final class BufferedResponse {
  private(set) var body = ByteBuffer()
  private let gauge: BodyGauge

  init(gauge: BodyGauge) { self.gauge = gauge }

  deinit { gauge.giveBack(body.count) }

  func append(_ bytes: UnsafeRawBufferPointer) {
    body.append(bytes)
    gauge.take(bytes.count)
  }
}
