internal import Bytes

/// Splits a field section (RFC 9112 §5) into lines, and each complete line into name and value.
///
/// `MessageFacts` interprets the names later: this loop makes no calls, so its state stays in registers. Positions
/// count from `base`, the first byte of the head or trailer section. Every access is in `0..<available` of these bytes.
enum FieldLines {
  enum Section {
    case head
    /// A trailer section in chunked framing, where line ends are strict.
    case trailer
  }

  /// Returns the position after the section's empty line, or nil when the section is incomplete. `lineStart` is the
  /// position of the first unread line. It advances, so that the loop reads bytes that arrive slowly only once.
  static func read(
    _ base: UnsafeRawPointer, _ available: Int, lineStart: inout Int, section: Section, limits: HeadLimits,
    into list: inout TrivialList<Field>
  ) throws(HeadError) -> Int? {
    var at = lineStart
    while at < available {
      if ByteScan.byte(base, at) <= 0x20 {
        return try emptyLine(base, at, available, section, isFirst: list.count == 0)
      }
      let start = at
      let nameEnd = ByteScan.nameEnd(base, at, available)
      guard nameEnd < available else { return nil }
      guard ByteScan.byte(base, nameEnd) == 0x3A else { throw nameFault(base, nameEnd, available) }
      at = nameEnd &+ 1
      while at < available, isBlank(ByteScan.byte(base, at)) { at &+= 1 }
      let valueStart = at
      while true {
        at = ByteScan.control(base, at, available)
        guard at < available, ByteScan.byte(base, at) == 0x09 else { break }
        at &+= 1
      }
      var valueEnd = at
      guard let next = try lineEnd(base, at, available, section) else { return nil }
      at = next
      while valueEnd > valueStart, isBlank(ByteScan.byte(base, valueEnd &- 1)) { valueEnd &-= 1 }
      if at &- start > limits.lineBytes { throw .fieldTooLarge }
      if list.count >= limits.fields { throw .tooManyFields }
      list.append(
        Field(
          name: ByteRange(start: start, count: nameEnd &- start),
          value: ByteRange(start: valueStart, count: valueEnd &- valueStart), id: .other, isHopByHop: false))
      lineStart = at
    }
    return nil
  }

  /// Handles a line that begins with a byte up to space: the empty line that ends the section, or an error.
  private static func emptyLine(
    _ base: UnsafeRawPointer, _ at: Int, _ available: Int, _ section: Section, isFirst: Bool
  ) throws(HeadError) -> Int? {
    if isBlank(ByteScan.byte(base, at)) { throw isFirst ? .whitespaceBeforeFirstField : .lineFolding }
    return try lineEnd(base, at, available, section)
  }

  /// Returns the position after the line end at `at`, or nil when the line end is incomplete.
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

  /// Returns the error for a control character in a head.
  static func fault(of byte: UInt8) -> HeadError {
    switch byte {
    case 0x00: .nul
    case 0x0D: .bareCarriageReturn
    default: .controlCharacter
    }
  }

  private static func nameFault(_ base: UnsafeRawPointer, _ at: Int, _ available: Int) -> HeadError {
    switch ByteScan.byte(base, at) {
    case 0x20, 0x09: .whitespaceBeforeColon
    case 0x0A: .missingColon
    case 0x0D: at + 1 < available && ByteScan.byte(base, at + 1) != 0x0A ? .bareCarriageReturn : .missingColon
    case let byte: Self.fault(of: byte)
    }
  }

  @inline(__always)
  private static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }
}
