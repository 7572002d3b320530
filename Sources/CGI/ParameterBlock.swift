public import Bytes
internal import Glibc

/// Why a parameter can't be sent. The request fails, because a program without one of its parameters may do anything.
public enum ParameterFault: Error, Sendable, Equatable, CustomStringConvertible {
  /// The name is empty or has `=`: programs keep parameters in their environment, as `NAME=value`.
  case name
  /// A name or a value has a NUL byte. It would end the value in the program, and in SCGI begin another parameter.
  case nul
  /// All parameters together would take more than so many bytes.
  case tooLarge(limit: Int)

  public var description: String {
    switch self {
    case .name: "the name of a parameter is empty or has \"=\""
    case .nul: "a parameter has a NUL byte"
    case .tooLarge(let limit): "the parameters of the request take more than \(limit) bytes"
    }
  }
}

/// The parameters of one request, in the form in which their protocol sends them.
///
/// A worker keeps a block and its storage from one request to the next. A parameter that can't be sent leaves the block
/// as it was.
public struct ParameterBlock: ~Copyable {
  public let kind: ProgramProtocol
  private var buffer = ByteBuffer()

  public init(_ kind: ProgramProtocol) { self.kind = kind }

  /// The number of bytes that the parameters take.
  public var count: Int { buffer.count }
  public var bytes: UnsafeRawBufferPointer { buffer.readable }

  /// Removes all parameters and keeps the storage.
  public mutating func removeAll() { buffer.removeAll() }

  /// Adds a parameter. A name may come again, and programs judge what it means then. SCGI forbids that, and
  /// `appendHead` writes CONTENT_LENGTH and SCGI by itself: a block for SCGI doesn't take these two.
  public mutating func add(
    _ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer
  ) throws(ParameterFault) {
    guard name.count > 0, !Self.holds(name, 0x3D) else { throw .name }
    guard !Self.holds(name, 0), !Self.holds(value, 0) else { throw .nul }
    if isOwn(name) { return }
    try beginName(name.count, value: value.count)
    buffer.append(name)
    beginValue(value.count)
    buffer.append(value)
    endValue()
  }

  public mutating func add(_ name: StaticString, _ value: UnsafeRawBufferPointer) throws(ParameterFault) {
    try add(UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount), value)
  }

  /// Adds a parameter of digits. As in `add`, a block for SCGI doesn't take its own parameters.
  public mutating func add(_ name: StaticString, decimal value: UInt64) throws(ParameterFault) {
    let bytes = UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
    if isOwn(bytes) { return }
    let digits = Self.digits(of: value)
    try beginName(bytes.count, value: digits)
    buffer.append(bytes)
    beginValue(digits)
    buffer.append(decimal: value)
    endValue()
  }

  /// Whether `appendHead` writes this parameter by itself.
  private func isOwn(_ name: UnsafeRawBufferPointer) -> Bool {
    kind == .scgi && (name.equals("CONTENT_LENGTH") || name.equals("SCGI"))
  }

  private static func digits(of value: UInt64) -> Int {
    var digits = 1, rest = value / 10
    while rest > 0 {
      digits += 1
      rest /= 10
    }
    return digits
  }

  private static func holds(_ bytes: UnsafeRawBufferPointer, _ byte: CInt) -> Bool {
    bytes.baseAddress.map { memchr($0, byte, bytes.count) != nil } ?? false
  }

  /// Begins a parameter whose name and value take so many bytes. The caller appends both, each by its function.
  mutating func beginName(_ name: Int, value: Int) throws(ParameterFault) {
    let limit = kind.parameterBytes
    // Each number is bounded before they are added.
    guard name <= limit, value <= limit, buffer.count + overhead(name, value) + name + value <= limit else {
      throw .tooLarge(limit: limit)
    }
    buffer.reserve(overhead(name, value) + name + value)
    switch kind {
    case .fastCGI:
      appendLength(name)
      appendLength(value)
    case .scgi: break
    case .uwsgi: buffer.append(littleEndian: UInt16(truncatingIfNeeded: name))
    }
  }

  /// Ends the name.
  mutating func beginValue(_ count: Int) {
    switch kind {
    case .fastCGI: break
    case .scgi: buffer.append(0)
    case .uwsgi: buffer.append(littleEndian: UInt16(truncatingIfNeeded: count))
    }
  }

  mutating func endValue() { if kind == .scgi { buffer.append(0) } }

  /// Appends the name of a field's parameter.
  mutating func append(fieldName name: UnsafeRawBufferPointer) {
    buffer.append(FieldParameters.prefix)
    buffer.reserve(name.count)
    let room = buffer.writable
    for index in 0..<name.count { room[index] = FieldParameters.byte(name[index]) }
    buffer.didWrite(name.count)
  }

  /// Appends a part of a value.
  mutating func append(part: UnsafeRawBufferPointer) { buffer.append(part) }

  /// Appends what separates two parts of a value.
  mutating func append(separator: UInt8) {
    buffer.append(separator)
    buffer.append(0x20)
  }

  /// The bytes that a parameter takes beside its name and value.
  private func overhead(_ name: Int, _ value: Int) -> Int {
    switch kind {
    case .fastCGI: (name < 128 ? 1 : 4) + (value < 128 ? 1 : 4)
    case .scgi: 2
    case .uwsgi: 4
    }
  }

  /// Appends a length of FastCGI: one byte, or four whose first bit is set.
  private mutating func appendLength(_ length: Int) {
    if length < 128 { return buffer.append(UInt8(truncatingIfNeeded: length)) }
    buffer.append(bigEndian: UInt16(truncatingIfNeeded: length >> 16) | 0x8000)
    buffer.append(bigEndian: UInt16(truncatingIfNeeded: length))
  }

  /// Appends all that goes before a request's body. `contentLength`: of the body, for SCGI, whose servers must know it.
  public func appendHead(contentLength: UInt64, to output: inout ByteBuffer) {
    switch kind {
    case .fastCGI(let keepsConnection):
      FastCGIRecord.appendBegin(keepsConnection: keepsConnection, to: &output)
      FastCGIRecord.append(.parameters, bytes, to: &output)
      FastCGIRecord.appendEnd(of: .parameters, to: &output)
    case .scgi:
      // A netstring of names and values, each ended by NUL.
      let own = "CONTENT_LENGTH\0\0SCGI\u{0}1\0".utf8.count
      output.append(decimal: UInt64(own + Self.digits(of: contentLength) + count))
      output.append(":CONTENT_LENGTH\0")
      output.append(decimal: contentLength)
      output.append("\0SCGI\u{0}1\0")
      output.append(bytes)
      output.append(",")
    case .uwsgi(let modifier1, let modifier2):
      output.append(modifier1)
      output.append(littleEndian: UInt16(truncatingIfNeeded: count))
      output.append(modifier2)
      output.append(bytes)
    }
  }
}
