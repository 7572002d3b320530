public import Bytes

/// The storage of a request or response head, for bytes and field lines. The head keeps it from message to message.
///
/// Why a struct inside the two final classes: the hot path then makes no more calls than with direct properties.
@usableFromInline struct HeadStorage: ~Copyable {
  @usableFromInline var buffer = ByteBuffer()
  @usableFromInline var list = TrivialList<Field>()
  /// The known names among the fields in `list`.
  @usableFromInline var present = FieldNameSet()

  init() {}

  /// Clears the message and keeps the memory.
  mutating func reset() {
    buffer.removeAll()
    list.removeAll()
    present = FieldNameSet()
  }

  /// Clears the message and frees the memory.
  mutating func release() {
    reset()
    buffer.release()
    list.release()
  }

  /// Returns the value of the first field of this name, compared without case.
  func value(named name: UnsafeRawBufferPointer) -> ByteRange? {
    list.elements.value(named: name, in: buffer.readable)
  }
}
