import Bytes

/// The body of an upstream's answer, until it is whole and can be sealed. It counts among the bodies of the worker, and is
/// never refused for them: the upstream has done its work, and who asks next is told to wait.
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
