import Bytes

/// The body of an upstream's answer, until it is whole and can be sealed.
final class HeldAnswer {
  private(set) var body = ByteBuffer()

  func append(_ bytes: UnsafeRawBufferPointer) { body.append(bytes) }
}
