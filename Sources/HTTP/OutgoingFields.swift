import Bytes

/// The fields of a head that is being made, in the order in which they go out.
///
/// A field is either *own*, with its text in here, or *forwarded*: a range of the head that it came in. Own fields stand
/// as HTTP/1.1 writes them (`Name: value` CR LF), so that the encoder copies neighbours at once; HTTP/2 reads names and
/// values by their ranges. No value has a byte that would end its line.
struct OutgoingFields: ~Copyable {
  /// Of own fields, and of what stands in the first line.
  var text = ByteBuffer()
  private(set) var entries = TrivialList<OutgoingField>()
  private var nameStart = 0
  private var valueStart = 0

  mutating func removeAll() {
    text.removeAll()
    entries.removeAll()
  }

  /// Forgets all, and overwrites the text: credentials may have been in it.
  mutating func wipe() {
    text.wipe()
    entries.removeAll()
  }

  /// Takes over a field of the incoming head, whose `bytes` the encoder gets.
  @inline(__always)
  mutating func forward(_ field: Field) {
    entries.append(OutgoingField(name: field.name, value: field.value, isOwn: false))
  }

  /// Begins an own field; `prefix` is its name, a colon and a space. The value is what is appended to `text` until
  /// `endField` or `dropField`.
  mutating func beginField(_ prefix: UnsafeRawBufferPointer) {
    nameStart = text.count
    text.append(prefix)
    valueStart = text.count
  }

  /// Where the value of the field that was begun starts.
  var fieldStart: Int { valueStart }

  mutating func endField() {
    let end = text.count
    text.append("\r\n")
    entries.append(
      OutgoingField(
        name: ByteRange(start: nameStart, count: valueStart &- nameStart &- 2),
        value: ByteRange(start: valueStart, count: end &- valueStart), isOwn: true))
  }

  mutating func dropField() { text.truncate(to: nameStart) }

  /// False, and nothing added, when the name is no token or the value would end its line.
  mutating func add(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Bool {
    guard let base = name.baseAddress, name.count > 0, ByteSet.token.containsAll(base, 0, name.count),
      FieldValue.isValid(value)
    else { return false }
    nameStart = text.count
    text.append(name)
    text.append(": ")
    valueStart = text.count
    text.append(value)
    endField()
    return true
  }

  mutating func add(_ block: FieldBlock) {
    let offset = UInt32(truncatingIfNeeded: text.count)
    text.append(block.text)
    for entry in block.entries { entries.append(entry.moved(by: offset)) }
  }

  /// The value of the first field whose name becomes this variable: nginx's `$sent_http_NAME`. Letters are folded, and `_`
  /// stands for `-`.
  func value(variableName: UnsafeRawBufferPointer, in incoming: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
    for entry in entries.elements where Int(entry.name.count) == variableName.count {
      let bytes = entry.isOwn ? text.readable : incoming
      if bytes[entry.name].becomesVariable(variableName) { return bytes[entry.value] }
    }
    return nil
  }

  /// Writes the lines. Neighbours whose text stands as it is to be written are one copy.
  func encode(over incoming: UnsafeRawBufferPointer, to output: inout ByteBuffer) {
    let own = text.readable
    var run = Run(isOwn: true, start: 0, end: 0)
    for entry in entries.elements {
      let start = Int(entry.name.start), end = entry.value.end &+ 2
      if start == run.end, entry.isOwn == run.isOwn, entry.isOwn || Self.isLine(entry, incoming) {
        run.end = end
        continue
      }
      run.write(own, incoming, to: &output)
      if entry.isOwn || Self.isLine(entry, incoming) {
        run = Run(isOwn: entry.isOwn, start: start, end: end)
      } else {
        run = Run(isOwn: true, start: 0, end: 0)
        HeadWriter.forward(
          Field(name: entry.name, value: entry.value, id: .other, isHopByHop: false), of: incoming, to: &output)
      }
    }
    run.write(own, incoming, to: &output)
  }

  /// Bytes that are written as they stand.
  private struct Run {
    let isOwn: Bool
    let start: Int
    var end: Int

    @inline(__always)
    func write(_ own: UnsafeRawBufferPointer, _ incoming: UnsafeRawBufferPointer, to output: inout ByteBuffer) {
      guard end > start else { return }
      output.append(UnsafeRawBufferPointer(rebasing: (isOwn ? own : incoming)[start..<end]))
    }
  }

  /// Whether a forwarded field came in as it is to be written: `Name: value` CR LF.
  @inline(__always)
  private static func isLine(_ entry: OutgoingField, _ incoming: UnsafeRawBufferPointer) -> Bool {
    let nameEnd = entry.name.end, valueEnd = entry.value.end
    guard Int(entry.value.start) == nameEnd &+ 2, valueEnd &+ 2 <= incoming.count, let base = incoming.baseAddress
    else {
      return false
    }
    return (base + nameEnd).loadUnaligned(as: UInt16.self) == UInt16(littleEndian: 0x203A)
      && (base + valueEnd).loadUnaligned(as: UInt16.self) == UInt16(littleEndian: 0x0A0D)
  }
}

/// One field of a head that is being made.
struct OutgoingField: Sendable, BitwiseCopyable {
  var name: ByteRange
  var value: ByteRange
  /// Its ranges are of the text of `OutgoingFields`; else of the incoming head.
  var isOwn: Bool

  func moved(by offset: UInt32) -> OutgoingField {
    var moved = self
    moved.name.start &+= offset
    moved.value.start &+= offset
    return moved
  }
}

/// Own fields that are the same for every message: made once, when the configuration is loaded.
public struct FieldBlock: Sendable {
  fileprivate var text: [UInt8] = []
  fileprivate var entries: [OutgoingField] = []

  public init() {}

  /// One field of ours.
  public init(_ name: StaticString, _ value: StaticString) {
    func bytes(_ text: StaticString) -> [UInt8] { text.withUTF8Buffer { Array($0) } }
    _ = add(bytes(name), bytes(value))
  }

  public var isEmpty: Bool { entries.isEmpty }

  /// False, and nothing added, when the name is no token or the value would end its line.
  public mutating func add(_ name: [UInt8], _ value: [UInt8]) -> Bool {
    var fields = OutgoingFields()
    let isAdded = name.withUnsafeBytes { name in value.withUnsafeBytes { fields.add(name, $0) } }
    let offset = UInt32(truncatingIfNeeded: text.count)
    text += Array(fields.text.readable)
    for entry in fields.entries.elements { entries.append(entry.moved(by: offset)) }
    return isAdded
  }
}
