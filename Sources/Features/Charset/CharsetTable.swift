package import Bytes

/// How bytes of one charset become those of another.
///
/// A byte above 7F that the table of `charset_map` lacks becomes "?", as in nginx; a character of UTF-8 that it lacks becomes
/// `&#NUMBER;`.
package enum CharsetTable: Sendable, Hashable {
  /// Between charsets of one byte each: what each byte becomes.
  case bytes([UInt8])
  /// The UTF-8 that each byte becomes.
  case toUTF8([[UInt8]])
  /// The bytes of characters above 7F.
  case fromUTF8([UInt32: UInt8])

  var keepsLength: Bool { if case .bytes = self { true } else { false } }
}

/// Converts a stream of bytes. Pure: what comes out doesn't depend on how the bytes are cut into pieces.
package struct CharsetConverter {
  private let table: CharsetTable
  /// The bytes of a character of UTF-8 whose last ones have not come.
  private var begun: [UInt8] = []

  package init(_ table: CharsetTable) { self.table = table }

  /// Appends at most seven bytes for each one that comes.
  package mutating func convert(_ bytes: UnsafeRawBufferPointer, to output: inout ByteBuffer) {
    switch table {
    case .bytes(let table): output.append(bytes.map { table[Int($0)] })
    case .toUTF8(let table):
      for byte in bytes {
        if byte < 0x80, table[Int(byte)].count == 1 {
          output.append(table[Int(byte)][0])
        } else {
          output.append(table[Int(byte)])
        }
      }
    case .fromUTF8(let table): for byte in bytes { take(byte, table, &output) }
    }
  }

  /// No byte follows.
  package mutating func finish(to output: inout ByteBuffer) {
    if !begun.isEmpty { output.append(Self.unknown) }
    begun.removeAll()
  }

  private static let unknown = UInt8(ascii: "?")

  /// Bytes that are no UTF-8 become one "?" up to where a character may begin again.
  private mutating func take(_ byte: UInt8, _ table: [UInt32: UInt8], _ output: inout ByteBuffer) {
    if !begun.isEmpty, !UTF8Start.mayFollow(byte, begun) {
      output.append(Self.unknown)
      begun.removeAll(keepingCapacity: true)
    }
    if begun.isEmpty {
      if byte < 0x80 { return output.append(byte) }
      guard UTF8Start.length(byte) > 0 else { return output.append(Self.unknown) }
      begun.append(byte)
      return
    }
    begun.append(byte)
    guard begun.count == UTF8Start.length(begun[0]) else { return }
    let character = UTF8Start.character(begun)
    begun.removeAll(keepingCapacity: true)
    if let known = table[character] { return output.append(known) }
    output.append("&#")
    output.append(decimal: UInt64(character))
    output.append(UInt8(ascii: ";"))
  }
}

/// The forms of UTF-8 (RFC 3629 §4).
enum UTF8Start {
  /// The bytes of a character that begins with this one, which is above 7F; 0: none does.
  static func length(_ byte: UInt8) -> Int {
    switch byte {
    case 0xC2...0xDF: 2
    case 0xE0...0xEF: 3
    case 0xF0...0xF4: 4
    default: 0
    }
  }

  /// Whether the byte may follow those of an unfinished character.
  static func mayFollow(_ byte: UInt8, _ begun: [UInt8]) -> Bool {
    switch (begun.count, begun[0]) {
    case (1, 0xE0): 0xA0...0xBF ~= byte
    case (1, 0xED): 0x80...0x9F ~= byte
    case (1, 0xF0): 0x90...0xBF ~= byte
    case (1, 0xF4): 0x80...0x8F ~= byte
    default: 0x80...0xBF ~= byte
    }
  }

  /// The number of a whole character.
  static func character(_ bytes: [UInt8]) -> UInt32 {
    let first = UInt32(bytes[0]) & (0x7F >> UInt32(bytes.count))
    return bytes.dropFirst().reduce(first) { $0 << 6 | UInt32($1 & 0x3F) }
  }

  /// The number of the one character that the bytes are; nil: they are none, or more.
  static func only(_ bytes: [UInt8]) -> UInt32? {
    guard let first = bytes.first else { return nil }
    if first < 0x80 { return bytes.count == 1 ? UInt32(first) : nil }
    guard bytes.count == length(first) else { return nil }
    for index in 1..<bytes.count where !mayFollow(bytes[index], Array(bytes[..<index])) { return nil }
    return character(bytes)
  }
}
