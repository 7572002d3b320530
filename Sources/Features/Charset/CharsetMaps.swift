import Language
import Observability
import Traffic

/// The tables of `charset_map`, each for both directions.
struct CharsetMaps: BlockPart {
  struct Pair: Hashable {
    /// Lower-case.
    var source: String
    var result: String
  }

  private(set) var tables: [Pair: CharsetTable] = [:]

  static let row = DirectiveEntry.local(
    "charset_map", .http, .table(2...2, "CHARSET CHARSET"),
    "How bytes of one charset become those of another, and back: lines of two codes in hexadecimal. The second charset can"
      + " be utf-8, whose codes have two to four bytes.",
    repeatable: true, example: "charset_map koi8-r utf-8 { C0 D18E; C1 D0B0; }", trust: .none)

  mutating func read(_ line: Directive, _ builder: inout SettingsBuilder) {
    let pair = Pair(source: line.text(0).lowercased(), result: line.text(1).lowercased())
    guard pair.source != pair.result, pair.source != Self.utf8 else {
      return builder.error(
        line.location, "\"charset_map\" from \"\(line.text(0))\" to \"\(line.text(1))\"",
        hint: "two charsets, of which only the second one can be utf-8: the table is used in both directions")
    }
    if tables[pair] != nil {
      builder.error(
        line.location, "duplicate \"charset_map\" between \"\(line.text(0))\" and \"\(line.text(1))\"",
        hint: "put the codes into one block")
    }
    let back = Pair(source: pair.result, result: pair.source)
    if pair.result == Self.utf8 {
      var there = Self.identity.map { [$0] }
      var here: [UInt32: UInt8] = [:]
      for (code, character, number) in codes(line, isUTF8: true, &builder) {
        there[Int(code)] = character
        here[number] = code
      }
      tables[pair] = .toUTF8(there)
      tables[back] = .fromUTF8(here)
    } else {
      var there = Self.identity, here = Self.identity
      for (code, other, _) in codes(line, isUTF8: false, &builder) {
        there[Int(code)] = other[0]
        here[Int(other[0])] = code
      }
      tables[pair] = .bytes(there)
      tables[back] = .bytes(here)
    }
  }

  static let utf8 = "utf-8"
  /// The bytes up to 7F are the same in each charset; as in nginx, the others are unknown until a line says them.
  private static let identity = (0...255).map { $0 < 0x80 ? UInt8($0) : UInt8(ascii: "?") }

  /// The lines of a table: a byte, what it becomes, and the number of that character.
  private func codes(
    _ line: Directive, isUTF8: Bool, _ builder: inout SettingsBuilder
  ) -> [(UInt8, [UInt8], UInt32)] {
    (line.block ?? []).compactMap { code in
      let (first, second) = (Self.bytes(code.name), Self.bytes(code.text(0)))
      let character = second.flatMap { isUTF8 ? UTF8Start.only($0) : $0.count == 1 ? UInt32($0[0]) : nil }
      guard code.arguments.count == 1, code.block == nil, let first, first.count == 1, let second, let character else {
        builder.error(
          code.location, "invalid line in \"charset_map\"",
          hint: isUTF8 ? "a byte and a character of UTF-8 in hexadecimal: C0 D18E;" : "two bytes in hexadecimal: C0 FE;"
        )
        return nil
      }
      return (first[0], second, character)
    }
  }

  /// nil: the text isn't hexadecimal. As in nginx, one digit is a byte.
  private static func bytes(_ text: String) -> [UInt8]? {
    let digits = Array((text.utf8.count == 1 ? "0\(text)" : text).utf8)
    guard digits.count % 2 == 0, digits.count <= 8 else { return nil }
    return try? stride(from: 0, to: digits.count, by: 2).map { index in
      guard let byte = UInt8(String(decoding: digits[index..<index + 2], as: UTF8.self), radix: 16) else {
        throw NotHexadecimal()
      }
      return byte
    }
  }

  private struct NotHexadecimal: Error {}
}
