/// The value of Range (RFC 9110 §14.2), read as nginx reads it.
public enum RangeRequest: Sendable, Hashable {
  /// The whole representation is to be sent: the field is not for bytes, asks for everything or for too much.
  case whole
  /// 206: these parts, in the order of the request. They may overlap, and together are at most as long as the whole.
  case parts([Range<UInt64>])
  /// 416
  case unsatisfiable

  /// `length`: of the representation. `limit`: how many parts there may be (`max_ranges`).
  public init(_ value: UnsafeRawBufferPointer, length: UInt64, limit: Int) {
    let unit = Array("bytes=".utf8)
    guard value.count >= 7,
      zip(value, unit).allSatisfy({ $0 == $1 || $0 | 0x20 == $1 && $1 != 0x3D })
    else {
      self = .whole
      return
    }
    var reader = Reader(value, at: unit.count)
    var parts: [Range<UInt64>] = []
    var size: UInt64 = 0
    repeat {
      guard let part = reader.part(length) else {
        self = .unsatisfiable
        return
      }
      if part.isEmpty {
        // Beyond the end. As in nginx, an empty part at the beginning asks for everything.
        if part.lowerBound == 0 {
          self = .whole
          return
        }
        continue
      }
      guard parts.count < limit else {
        self = .whole
        return
      }
      parts.append(part)
      size = size &+ UInt64(part.count)
    } while reader.comma()
    // More than the whole would serve nobody but an attacker.
    self = parts.isEmpty ? .unsatisfiable : size > length ? .whole : .parts(parts)
  }

  private struct Reader {
    private let bytes: UnsafeRawBufferPointer
    private var at: Int

    init(_ bytes: UnsafeRawBufferPointer, at: Int) { (self.bytes, self.at) = (bytes, at) }

    private var next: UInt8? { at < bytes.count ? bytes[at] : nil }
    private var isAtEnd: Bool { next == nil || next == 0x2C }

    mutating func comma() -> Bool {
      guard next == 0x2C else { return false }
      at += 1
      return true
    }

    /// nil: malformed. The range is empty for a part beyond the end.
    mutating func part(_ length: UInt64) -> Range<UInt64>? {
      skipBlanks()
      if next == 0x2D {
        at += 1
        guard let count = number() else { return nil }
        skipBlanks()
        guard isAtEnd else { return nil }
        let start = count < length ? length - count : 0
        return start..<max(start, length)
      }
      guard let start = number() else { return nil }
      skipBlanks()
      guard next == 0x2D else { return nil }
      at += 1
      skipBlanks()
      if isAtEnd { return start..<max(start, length) }
      guard let last = number() else { return nil }
      skipBlanks()
      guard isAtEnd else { return nil }
      let end = last >= length ? length : last + 1
      return start..<max(start, end)
    }

    private mutating func skipBlanks() { while next == 0x20 { at += 1 } }

    private mutating func number() -> UInt64? {
      var value: UInt64 = 0
      var isRead = false
      while let byte = next, byte >= 0x30, byte <= 0x39 {
        let (product, overflow) = value.multipliedReportingOverflow(by: 10)
        guard !overflow, product <= UInt64(Int64.max) - UInt64(byte - 0x30) else { return nil }
        value = product + UInt64(byte - 0x30)
        isRead = true
        at += 1
      }
      return isRead ? value : nil
    }
  }
}
