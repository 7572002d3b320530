import Bytes

/// The fields of an outgoing head, in the order in which they are sent.
///
/// An *own* field has its text in this struct; a *forwarded* field is a range of the incoming head. Own fields have the
/// HTTP/1.1 form (`Name: value` CR LF), so the encoder copies adjacent fields at once. HTTP/2 reads names and values
/// by their ranges. No value contains a byte that would end its line.
struct OutgoingFields: ~Copyable {
  /// The text of own fields, and of the own parts of the first line.
  var text = ByteBuffer()
  private(set) var entries = TrivialList<OutgoingField>()
  private var nameStart = 0
  private var valueStart = 0

  mutating func removeAll() {
    text.removeAll()
    entries.removeAll()
  }

  /// Clears everything and overwrites the text, because the text may have contained credentials.
  mutating func wipe() {
    text.wipe()
    entries.removeAll()
  }

  /// Forwards a field of the incoming head; the caller passes that head's `bytes` to the encoder.
  @inline(__always)
  mutating func forward(_ field: Field) {
    entries.append(OutgoingField(name: field.name, value: field.value, isOwn: false))
  }

  /// Begins an own field; `prefix` is its name, a colon and a space. The caller then appends the value to `text` and
  /// calls `endField` or `dropField`.
  mutating func beginField(_ prefix: UnsafeRawBufferPointer) {
    nameStart = text.count
    text.append(prefix)
    valueStart = text.count
  }

  /// The position where the value of the current field starts.
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

  /// Adds a field. Returns false, and adds nothing, when the name is not a token or the value would end its line.
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

  /// Removes all fields of this name, compared without case.
  mutating func remove(_ name: UnsafeRawBufferPointer, in incoming: UnsafeRawBufferPointer) {
    let all = entries.mutableElements
    var kept = 0
    for index in 0..<all.count {
      let bytes = all[index].isOwn ? text.readable : incoming
      if bytes[all[index].name].equalsIgnoringCase(name) { continue }
      all[kept] = all[index]
      kept += 1
    }
    entries.truncate(to: kept)
  }

  mutating func add(_ block: FieldBlock) {
    let offset = UInt32(truncatingIfNeeded: text.count)
    text.append(block.fields.text.readable)
    for entry in block.fields.entries.elements { entries.append(entry.moved(by: offset)) }
  }

  /// Appends the values of the fields whose name maps to this variable: nginx's `$sent_http_NAME`. The mapping folds
  /// letters to lower case and `-` to `_`. Several values are joined by `, `. Returns whether there was a field.
  func append(
    variableName: UnsafeRawBufferPointer, in incoming: UnsafeRawBufferPointer, to output: inout ByteBuffer
  ) -> Bool {
    var isFirst = true
    for entry in entries.elements where Int(entry.name.count) == variableName.count {
      let bytes = entry.isOwn ? text.readable : incoming
      guard bytes[entry.name].becomesVariable(variableName) else { continue }
      if !isFirst { output.append(", ") }
      isFirst = false
      output.append(bytes[entry.value])
    }
    return !isFirst
  }

  /// Writes the field lines. Adjacent lines that are already in their final form are one copy.
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

  /// A range of bytes that the encoder writes unchanged.
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

  /// Returns whether a forwarded field arrived in its final form: `Name: value` CR LF.
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

/// One field of an outgoing head.
struct OutgoingField: Sendable, BitwiseCopyable {
  var name: ByteRange
  var value: ByteRange
  /// Whether the field's ranges are in the text of `OutgoingFields`; otherwise they are in the incoming head.
  var isOwn: Bool

  func moved(by offset: UInt32) -> OutgoingField {
    var moved = self
    moved.name.start &+= offset
    moved.value.start &+= offset
    return moved
  }
}

/// Own fields that are the same for every message. The configuration creates the block once, when it loads.
///
/// Why a class: each message adds such blocks, and arrays would be retained each time.
// Unchecked, because a struct with a pointer isn't Sendable: nothing changes `fields` after `init`.
public final class FieldBlock: @unchecked Sendable {
  fileprivate let fields: OutgoingFields

  /// Creates a block of the fields of `first` and these fields. It leaves out a field when the name is not a token or the
  /// value would end its line.
  public init(_ lines: [(name: [UInt8], value: [UInt8])], after first: FieldBlock? = nil) {
    var fields = OutgoingFields()
    if let first { fields.add(first) }
    for line in lines {
      _ = line.name.withUnsafeBytes { name in line.value.withUnsafeBytes { fields.add(name, $0) } }
    }
    self.fields = fields
  }

  /// Creates a block of one own field.
  public convenience init(_ name: StaticString, _ value: StaticString) {
    func bytes(_ text: StaticString) -> [UInt8] { text.withUTF8Buffer { Array($0) } }
    self.init([(bytes(name), bytes(value))])
  }

  public var isEmpty: Bool { fields.entries.count == 0 }
}
