/// Writes a word of the configuration language, for text that a command makes.
package enum ConfigurationWord {
  /// The word in quotes. The lexer reads back exactly this text, whatever it contains, on one line. The only exception
  /// is a NUL byte, which no word can contain: the lexer refuses the text.
  ///
  /// Every backslash is doubled, so none of the text's own can escape what follows it.
  package static func quoted(_ text: String) -> String {
    var bytes: [UInt8] = [UInt8(ascii: "\"")]
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "\""), UInt8(ascii: "\\"): bytes += [UInt8(ascii: "\\"), byte]
      case UInt8(ascii: "\n"): bytes += Array("\\n".utf8)
      case UInt8(ascii: "\r"): bytes += Array("\\r".utf8)
      case UInt8(ascii: "\t"): bytes += Array("\\t".utf8)
      default: bytes.append(byte)
      }
    }
    return String(decoding: bytes + [UInt8(ascii: "\"")], as: UTF8.self)
  }

  /// The word as a person would write it: without quotes where it needs none.
  package static func written(_ text: String) -> String {
    let plain = text.utf8.allSatisfy { byte in
      (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
        || "./:_-+=[]@,*/~".utf8.contains(byte)
    }
    return plain && !text.isEmpty ? text : quoted(text)
  }
}
