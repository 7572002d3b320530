public import Bytes

/// The storage of a request or response head, which the head keeps from message to message: bytes and field lines.
///
/// A struct inside the two final classes, so that the hot path has no call more than with the properties themselves.
@usableFromInline struct HeadStorage: ~Copyable {
  @usableFromInline var buffer = ByteBuffer()
  @usableFromInline var list = TrivialList<Field>()
  /// The known names in `list`.
  @usableFromInline var present = FieldNameSet()

  init() {}

  /// Forgets the message, keeps the memory.
  mutating func reset() {
    buffer.removeAll()
    list.removeAll()
    present = FieldNameSet()
  }

  /// Forgets the message and gives the memory back.
  mutating func release() {
    reset()
    buffer.release()
    list.release()
  }

  /// The value of the first field of this name, letters folded.
  func value(named name: UnsafeRawBufferPointer) -> ByteRange? {
    list.elements.value(named: name, in: buffer.readable)
  }
}
