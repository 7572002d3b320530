internal import Bytes

/// Reads field lines (RFC 9112 §5) into fields, one whole line at a time.
///
/// It remembers where the unread line begins, so that bytes which arrive in drips are looked at once. Positions count
/// from `base`, the first byte of the head or of the trailer section; every access lies in `0..<count` of it.
struct FieldLines {
  enum Section {
    case head
    /// In chunked framing: line ends are strict, and fields that have no place there are dropped.
    case trailer
  }

  var lineStart = 0
  var facts = MessageFacts()
  private var count = 0

  /// Where the section ended, past its empty line; nil when it is not all there.
  mutating func read(
    _ base: UnsafeRawPointer, _ available: Int, section: Section, limits: HeadLimits, into list: inout FieldList
  ) throws(HeadError) -> Int? {
    var at = lineStart
    while at < available {
      let first = ByteScan.byte(base, at)
      if first <= 0x20 {
        return try emptyLine(base, at, available, section)
      }
      let start = at
      let nameEnd = ByteScan.nameEnd(base, at, available)
      guard nameEnd < available else { return nil }
      guard ByteScan.byte(base, nameEnd) == 0x3A else { throw nameFault(base, nameEnd, available) }
      at = nameEnd &+ 1
      while at < available, Self.isBlank(ByteScan.byte(base, at)) { at &+= 1 }
      let valueStart = at
      while true {
        at = ByteScan.control(base, at, available)
        guard at < available, ByteScan.byte(base, at) == 0x09 else { break }
        at &+= 1
      }
      var valueEnd = at
      guard let next = try Self.lineEnd(base, valueEnd, available, section) else { return nil }
      while valueEnd > valueStart, Self.isBlank(ByteScan.byte(base, valueEnd &- 1)) { valueEnd &-= 1 }
      at = next
      if at &- start > limits.lineBytes { throw .fieldTooLarge }
      if count >= limits.fields { throw .tooManyFields }
      count &+= 1
      let name = ByteRange(start: start, count: nameEnd &- start)
      let value = ByteRange(start: valueStart, count: valueEnd &- valueStart)
      let id = FieldName.known(base + start, nameEnd &- start)
      if try isKept(id, base, name, value, section, limits) {
        list.append(Field(name: name, value: value, id: id, isHopByHop: id.isHopByHop))
      }
      lineStart = at
    }
    return nil
  }

  /// Takes in what the field says of the message; false when it has no place in the model.
  @inline(__always)
  private mutating func isKept(
    _ id: FieldName, _ base: UnsafeRawPointer, _ name: ByteRange, _ value: ByteRange, _ section: Section,
    _ limits: HeadLimits
  ) throws(HeadError) -> Bool {
    if section == .trailer { return try mayTrail(id, base, name, limits) }
    if MessageFacts.isNoted(id) { try facts.note(id, base, value) }
    facts.present.insert(id)
    return id == .other ? try Self.keeps(base, Int(name.start), name.end, limits) : true
  }

  private func mayTrail(
    _ id: FieldName, _ base: UnsafeRawPointer, _ name: ByteRange, _ limits: HeadLimits
  ) throws(HeadError) -> Bool {
    if FieldNameSet.neverTrailer.contains(id) { return false }
    return id == .other ? try Self.keeps(base, Int(name.start), name.end, limits) : true
  }

  /// A line that begins with a byte up to space: the empty line that ends the section, or a fault.
  private func emptyLine(
    _ base: UnsafeRawPointer, _ at: Int, _ available: Int, _ section: Section
  ) throws(HeadError) -> Int? {
    if Self.isBlank(ByteScan.byte(base, at)) { throw count == 0 ? .whitespaceBeforeFirstField : .lineFolding }
    return try Self.lineEnd(base, at, available, section)
  }

  /// Past the line end at `at`; nil when it is not all there.
  @inline(__always)
  static func lineEnd(
    _ base: UnsafeRawPointer, _ at: Int, _ available: Int, _ section: Section
  ) throws(HeadError) -> Int? {
    guard at < available else { return nil }
    if ByteScan.byte(base, at) == 0x0D {
      guard at &+ 1 < available else { return nil }
      guard ByteScan.byte(base, at &+ 1) == 0x0A else { throw .bareCarriageReturn }
      return at &+ 2
    }
    guard ByteScan.byte(base, at) == 0x0A else { throw Self.fault(of: ByteScan.byte(base, at)) }
    guard section == .head else { throw .bareLineFeed }
    return at &+ 1
  }

  /// What is wrong with a control character in a head.
  static func fault(of byte: UInt8) -> HeadError {
    switch byte {
    case 0x00: .nul
    case 0x0D: .bareCarriageReturn
    default: .controlCharacter
    }
  }

  private func nameFault(_ base: UnsafeRawPointer, _ at: Int, _ available: Int) -> HeadError {
    switch ByteScan.byte(base, at) {
    case 0x20, 0x09: .whitespaceBeforeColon
    case 0x0A: .missingColon
    case 0x0D: at + 1 < available && ByteScan.byte(base, at + 1) != 0x0A ? .bareCarriageReturn : .missingColon
    case let byte: Self.fault(of: byte)
    }
  }

  /// Whether an unknown name stays in the model; refuses one that is no token.
  private static func keeps(
    _ base: UnsafeRawPointer, _ start: Int, _ end: Int, _ limits: HeadLimits
  ) throws(HeadError) -> Bool {
    if ByteSet.ordinaryName.containsAll(base, start, end) {
      if start == end { throw .emptyFieldName }
      return true
    }
    var isOrdinary = true
    for index in start..<end {
      let byte = ByteScan.byte(base, index)
      guard ByteSet.token.contains(byte) else { throw .badFieldName }
      if !(ByteSet.ordinaryName.contains(byte) || byte == 0x5F && limits.underscores) { isOrdinary = false }
    }
    return isOrdinary || !limits.ignoreInvalidNames
  }

  @inline(__always)
  private static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }
}
