public import Bytes
internal import Glibc

/// Writes heads line by line, from parsed parts or from sallyport's own text, never from unchecked bytes.
public enum HeadWriter {
  /// Writes `HTTP/1.1 status reason`, with nginx's reason phrase.
  public static func statusLine(_ status: UInt16, to output: inout ByteBuffer) {
    output.append("HTTP/1.1 ")
    output.append(decimal: UInt64(status))
    output.append(0x20)
    output.append(StatusText.reason(status))
    output.append("\r\n")
  }

  /// Writes a field of a parsed head or trailer section; `bytes` are the bytes of that section.
  public static func forward(_ field: Field, of bytes: UnsafeRawBufferPointer, to output: inout ByteBuffer) {
    // Most lines arrive in the form in which they go out; name, `: ` and value are then one copy.
    let (name, value) = (field.name, field.value)
    let start = Int(name.start)
    let count = value.end &- start
    if Int(value.start) == name.end &+ 2, value.end <= bytes.count, let base = bytes.baseAddress,
      (base + name.end).loadUnaligned(as: UInt16.self) == UInt16(littleEndian: 0x203A)
    {
      output.reserve(count &+ 2)
      guard let target = output.writable.baseAddress else { return }
      memcpy(target, base + start, count)
      (target + count).storeBytes(of: UInt16(littleEndian: 0x0A0D), as: UInt16.self)
      return output.didWrite(count &+ 2)
    }
    line(bytes[name], bytes[value], to: &output)
  }

  /// Writes the fields that announce the body's framing; writes no field for `.none` and `.untilClose`.
  public static func framing(_ framing: BodyFraming, to output: inout ByteBuffer) {
    switch framing {
    case .none, .untilClose: break
    case .length(let length):
      output.append("Content-Length: ")
      output.append(decimal: length)
      output.append("\r\n")
    case .chunked: output.append("Transfer-Encoding: chunked\r\n")
    }
  }

  @inline(__always)
  private static func line(
    _ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, to output: inout ByteBuffer
  ) {
    let count = name.count &+ value.count &+ 4
    output.reserve(count)
    guard let target = output.writable.baseAddress, let nameBase = name.baseAddress else { return }
    memcpy(target, nameBase, name.count)
    (target + name.count).storeBytes(of: UInt16(littleEndian: 0x203A), as: UInt16.self)
    if let valueBase = value.baseAddress { memcpy(target + name.count + 2, valueBase, value.count) }
    (target + (count &- 2)).storeBytes(of: UInt16(littleEndian: 0x0A0D), as: UInt16.self)
    output.didWrite(count)
  }
}
