/// What a peer said, as text of a log line.
enum HeardText {
  /// The most bytes that are quoted.
  static let limit = 200

  /// The bytes in quotation marks; those that aren't printable ASCII, `"` and `\` as `\xHH`. What is longer ends with
  /// three dots.
  static func quoted(_ bytes: some Sequence<UInt8>) -> String {
    var text = "\""
    for (index, byte) in bytes.enumerated() {
      guard index < limit else { return text + "...\"" }
      if (0x20..<0x7F).contains(byte), byte != 0x22, byte != 0x5C {
        text.unicodeScalars.append(UnicodeScalar(byte))
      } else {
        text += "\\x" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
      }
    }
    return text + "\""
  }
}
