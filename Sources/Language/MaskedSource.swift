/// The text of a configuration file, of which no secret can be taken.
package struct MaskedSource: Sendable {
  private let bytes: [UInt8]
  private let secrets: [Range<Int>]
  /// Where the words end that could be read. Behind it nobody knows what is a secret.
  private let end: Int

  package init(_ bytes: [UInt8], _ file: String) {
    self.bytes = bytes
    (secrets, end) = ConfigurationDump.secrets(in: bytes, file)
  }

  /// The bytes of the range, with `********` in place of each secret.
  func text(of range: Range<Int>) -> [UInt8] {
    var output: [UInt8] = []
    var copied = range.lowerBound
    for secret in secrets where secret.overlaps(range) {
      if secret.lowerBound > copied { output += bytes[copied..<secret.lowerBound] }
      output += Array("********".utf8)
      copied = min(max(copied, secret.upperBound), range.upperBound)
    }
    return output + bytes[copied..<range.upperBound]
  }

  /// A line, and the part of it before the column, both counted from 1. What could not be read is `…`. nil where there is
  /// no such place, or where the file can't be read so far.
  package func line(_ number: Int, before column: Int) -> (whole: String, before: String)? {
    var start = 0
    var count = 1
    while count < number {
      guard let feed = bytes[start...].firstIndex(of: 0x0A) else { return nil }
      start = feed + 1
      count += 1
    }
    let stop = bytes[start...].firstIndex(of: 0x0A) ?? bytes.count
    let known = min(max(end, start), stop)
    let shown = bytes[known..<stop].firstIndex { !Self.isHarmless($0) } ?? stop
    let caret = min(stop, start + min(column - 1, stop - start))
    guard number > 0, column > 0, caret <= shown, shown > start || stop == start else { return nil }
    let whole = String(decoding: text(of: start..<shown), as: UTF8.self) + (shown < stop ? "…" : "")
    return (whole, String(decoding: text(of: start..<caret), as: UTF8.self))
  }

  private static func isHarmless(_ byte: UInt8) -> Bool { [0x20, 0x09, 0x0D, 0x3B, 0x7B, 0x7D].contains(byte) }
}
