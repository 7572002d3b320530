internal import Bytes
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

  /// Whether `appendHead` writes this parameter by itself.
  private func isOwn(_ name: UnsafeRawBufferPointer) -> Bool {
    kind == .scgi && (name.equals("CONTENT_LENGTH") || name.equals("SCGI"))
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

  /// The parameters of a block with these bytes, for who shows them.
  public static func parameters(of bytes: UnsafeRawBufferPointer, _ kind: ProgramProtocol) -> [(
    name: [UInt8], value: [UInt8]
  )] {
    var all: [(name: [UInt8], value: [UInt8])] = [], rest = bytes[...]
    func take(_ count: Int) -> [UInt8] {
      defer { rest = rest.dropFirst(count) }
      return Array(rest.prefix(count))
    }
    func number(_ bytes: [UInt8]) -> Int { bytes.reduce(0) { $0 << 8 | Int($1) } }
    func length() -> Int { rest.first.map { $0 < 128 ? number(take(1)) : number(take(4)) & 0x7FFF_FFFF } ?? 0 }
    while !rest.isEmpty {
      switch kind {
      case .fastCGI:
        let (name, value) = (length(), length())
        all.append((take(name), take(value)))
      case .uwsgi:
        let name = take(number(take(2).reversed()))
        all.append((name, take(number(take(2).reversed()))))
      case .scgi:
        let name = take(rest.firstIndex(of: 0).map { $0 - rest.startIndex } ?? rest.count)
        rest = rest.dropFirst()
        all.append((name, take(rest.firstIndex(of: 0).map { $0 - rest.startIndex } ?? rest.count)))
        rest = rest.dropFirst()
      }
    }
    return all
  }

  /// Adds the parameters of another block of the same kind, whose bytes these are.
  public mutating func add(block bytes: [UInt8]) throws(ParameterFault) {
    guard buffer.count + bytes.count <= kind.parameterBytes else { throw .tooLarge(limit: kind.parameterBytes) }
    buffer.append(bytes)
  }
}
