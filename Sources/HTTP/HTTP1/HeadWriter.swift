public import Bytes
internal import Glibc

/// Writes heads, line by line, from parsed parts or from text of our own; never from bytes that nobody looked at.
public enum HeadWriter {
  /// `METHOD target HTTP/1.x`. False, and nothing written, when method or target would break the line.
  public static func requestLine(
    method: UnsafeRawBufferPointer, target: UnsafeRawBufferPointer, version: HTTPVersion = .http11,
    to output: inout ByteBuffer
  ) -> Bool {
    guard let methodBase = method.baseAddress, let targetBase = target.baseAddress, target.count > 0,
      ByteSet.token.containsAll(methodBase, 0, method.count), method.count > 0
    else { return false }
    var at = ByteScan.targetEnd(targetBase, 0, target.count)
    while at < target.count, ByteScan.byte(targetBase, at) == 0x3F {
      at = ByteScan.targetEnd(targetBase, at + 1, target.count)
    }
    guard at == target.count else { return false }
    let end: StaticString =
      switch version {
      case .http10: " HTTP/1.0\r\n"
      case .http11: " HTTP/1.1\r\n"
      }
    let count = method.count &+ 1 &+ target.count &+ end.utf8CodeUnitCount
    output.reserve(count)
    guard let start = output.writable.baseAddress else { return false }
    memcpy(start, methodBase, method.count)
    (start + method.count).storeBytes(of: 0x20, as: UInt8.self)
    memcpy(start + method.count + 1, targetBase, target.count)
    memcpy(start + method.count + 1 + target.count, end.utf8Start, end.utf8CodeUnitCount)
    output.didWrite(count)
    return true
  }

  /// `HTTP/1.1 status reason`, with nginx's phrase.
  public static func statusLine(_ status: UInt16, to output: inout ByteBuffer) {
    output.append("HTTP/1.1 ")
    output.append(decimal: UInt64(status))
    output.append(0x20)
    output.append(StatusText.reason(status))
    output.append("\r\n")
  }

  /// `HTTP/1.1 status reason`, of a response that was parsed.
  public static func statusLine(of head: ResponseHead, to output: inout ByteBuffer) {
    let reason = head.bytes.readable[head.reason]
    if head.status == 200, reason.equals("OK") { return output.append("HTTP/1.1 200 OK\r\n") }
    output.append("HTTP/1.1 ")
    output.append(decimal: UInt64(head.status))
    output.append(0x20)
    output.append(reason)
    output.append("\r\n")
  }

  /// A field of a parsed head or trailer section, whose `bytes` they are.
  public static func forward(_ field: Field, of bytes: UnsafeRawBufferPointer, to output: inout ByteBuffer) {
    // Most lines are already as they would be written: then name, `: ` and value are one copy.
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

  /// False, and nothing written, when name or value would break the line: a configured template may carry what a
  /// client sent, decoded.
  public static func field(
    _ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, to output: inout ByteBuffer
  ) -> Bool {
    guard let base = name.baseAddress, name.count > 0, ByteSet.token.containsAll(base, 0, name.count),
      isValue(value)
    else { return false }
    line(name, value, to: &output)
    return true
  }

  /// A name of our own; false, and nothing written, when the value would break the line.
  public static func field(
    _ name: StaticString, _ value: UnsafeRawBufferPointer, to output: inout ByteBuffer
  ) -> Bool {
    guard isValue(value) else { return false }
    line(UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount), value, to: &output)
    return true
  }

  /// Name and value of our own.
  public static func field(_ name: StaticString, _ value: StaticString, to output: inout ByteBuffer) {
    line(
      UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount),
      UnsafeRawBufferPointer(start: value.utf8Start, count: value.utf8CodeUnitCount), to: &output)
  }

  /// Content-Length and the like.
  public static func field(_ name: StaticString, decimal value: UInt64, to output: inout ByteBuffer) {
    output.append(name)
    output.append(": ")
    output.append(decimal: value)
    output.append("\r\n")
  }

  /// The fields that announce how the body is framed; none for `.none` and `.untilClose`.
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

  /// The empty line.
  public static func end(to output: inout ByteBuffer) {
    output.append("\r\n")
  }

  /// Whether bytes may stand as a field value: no control character but the tab.
  public static func isValue(_ value: UnsafeRawBufferPointer) -> Bool {
    guard let base = value.baseAddress else { return true }
    var at = ByteScan.control(base, 0, value.count)
    while at < value.count, ByteScan.byte(base, at) == 0x09 { at = ByteScan.control(base, at + 1, value.count) }
    return at == value.count
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
