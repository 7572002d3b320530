public import Bytes

/// Writes commands as the server reads them: a list of strings, each with its length, so that no byte of an argument can
/// end it.
public enum RedisCommand {
  public static func append(_ words: [[UInt8]], to output: inout ByteBuffer) {
    begin(words.count, &output)
    for word in words { append(word, &output) }
  }

  /// `append` for words of our own.
  public static func append(_ words: String..., to output: inout ByteBuffer) {
    append(words.map { Array($0.utf8) }, to: &output)
  }

  /// A list of so many words follows.
  static func begin(_ count: Int, _ output: inout ByteBuffer) {
    output.append("*")
    output.append(decimal: UInt64(clamping: count))
    output.append("\r\n")
  }

  static func append(_ word: [UInt8], _ output: inout ByteBuffer) {
    output.append("$")
    output.append(decimal: UInt64(clamping: word.count))
    output.append("\r\n")
    output.append(word)
    output.append("\r\n")
  }
}
