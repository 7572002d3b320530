package import Bytes
import Traffic

/// The body of an upstream's response, held until the filter can seal it. The worker's gauge counts its bytes but never
/// refuses them, because the upstream has already done its work. The gauge refuses new requests instead.
package final class BufferedResponse {
  package private(set) var body = ByteBuffer()
  private let gauge: BodyMemoryBudget

  package init(gauge: BodyMemoryBudget) { self.gauge = gauge }

  deinit { gauge.giveBack(body.count) }

  package func append(_ bytes: UnsafeRawBufferPointer) {
    body.append(bytes)
    gauge.take(bytes.count)
  }
}
