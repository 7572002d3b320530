import Bytes

/// The body of an upstream's response, held until the filter can seal it. The worker's gauge counts its bytes but never
/// refuses them, because the upstream has already done its work. The gauge refuses new requests instead.
final class BufferedResponse {
  private(set) var body = ByteBuffer()
  private let gauge: BodyMemoryBudget

  init(gauge: BodyMemoryBudget) { self.gauge = gauge }

  deinit { gauge.giveBack(body.count) }

  func append(_ bytes: UnsafeRawBufferPointer) {
    body.append(bytes)
    gauge.take(bytes.count)
  }
}
