/// Header compression (RFC 7541) for tests: writes every representation, valid or not, and reads blocks of a peer that was
/// told to use no dynamic table.
package enum HPACK {
  package typealias Field = (name: String, value: String)

  /// How a literal field stands in a block (RFC 7541 §6.2).
  package enum Literal: UInt8, Sendable {
    case indexed = 0x40, plain = 0x00, neverIndexed = 0x10
    var prefix: Int { self == .indexed ? 6 : 4 }
  }

  // MARK: Writing

  /// An integer whose first byte begins with `pattern` and has `prefix` bits for it (RFC 7541 §5.1).
  package static func integer(_ value: Int, prefix: Int, _ pattern: UInt8 = 0) -> [UInt8] {
    let limit = 1 << prefix - 1
    guard value >= limit else { return [pattern | UInt8(value)] }
    var bytes = [pattern | UInt8(limit)], rest = value - limit
    while rest >= 128 {
      bytes.append(UInt8(rest & 0x7f) | 0x80)
      rest >>= 7
    }
    return bytes + [UInt8(rest)]
  }

  package static func string(_ text: String, huffman: Bool = false) -> [UInt8] {
    let bytes = huffman ? huffmanCode(text) : Array(text.utf8)
    return integer(bytes.count, prefix: 7, huffman ? 0x80 : 0) + bytes
  }

  package static func literal(
    _ name: String, _ value: String, _ form: Literal = .plain, huffman: Bool = false
  ) -> [UInt8] {
    [form.rawValue] + string(name, huffman: huffman) + string(value, huffman: huffman)
  }

  /// A literal whose name is that of a field in a table.
  package static func literal(nameAt index: Int, _ value: String, _ form: Literal = .plain) -> [UInt8] {
    integer(index, prefix: form.prefix, form.rawValue) + string(value)
  }

  package static func indexed(_ index: Int) -> [UInt8] { integer(index, prefix: 7, 0x80) }
  package static func tableSize(_ bytes: Int) -> [UInt8] { integer(bytes, prefix: 5, 0x20) }

  package static func block(_ fields: [Field]) -> [UInt8] { fields.flatMap { literal($0.name, $0.value) } }

  /// The pseudo-fields of a request.
  package static func request(_ method: String, _ path: String) -> [Field] {
    [(":method", method), (":scheme", "http"), (":path", path), (":authority", "localhost")]
  }

  /// Huffman's code of a text, filled up to a byte with ones.
  package static func huffmanCode(_ text: String) -> [UInt8] {
    var bits: [Bool] = []
    for byte in text.utf8 {
      let length = HPACKTables.lengths[Int(byte)], code = HPACKTables.codes[Int(byte)]
      bits += (0..<length).map { code >> (length - 1 - $0) & 1 == 1 }
    }
    while !bits.count.isMultiple(of: 8) { bits.append(true) }
    return stride(from: 0, to: bits.count, by: 8).map { bits[$0..<$0 + 8].reduce(0) { $0 << 1 | ($1 ? 1 : 0) } }
  }

  // MARK: Reading

  /// The fields of a block.
  package static func fields(of block: [UInt8]) throws -> [Field] {
    var rest = block[...], fields: [Field] = []
    while let first = rest.first {
      switch first {
      case 0x80...: fields.append(try field(at: integer(&rest, prefix: 7)))
      case 0x40...: fields.append(try literal(&rest, prefix: 6))
      case 0x20..<0x40:
        guard try integer(&rest, prefix: 5) == 0 else { throw WireError.malformed("a dynamic table") }
      default: fields.append(try literal(&rest, prefix: 4))
      }
    }
    return fields
  }

  private static func field(at index: Int) throws -> Field {
    guard HPACKTables.fields.indices.contains(index - 1) else { throw WireError.malformed("index \(index)") }
    return HPACKTables.fields[index - 1]
  }

  private static func literal(_ rest: inout ArraySlice<UInt8>, prefix: Int) throws -> Field {
    let index = try integer(&rest, prefix: prefix)
    let name = index == 0 ? try string(&rest) : try field(at: index).name
    return (name, try string(&rest))
  }

  private static func integer(_ rest: inout ArraySlice<UInt8>, prefix: Int) throws -> Int {
    let limit = 1 << prefix - 1
    guard let first = rest.popFirst() else { throw WireError.malformed("the end of a block") }
    var value = Int(first) & limit, shift = 0
    if value < limit { return value }
    while let byte = rest.popFirst(), shift < 28 {
      value += Int(byte & 0x7f) << shift
      shift += 7
      if byte < 0x80 { return value }
    }
    throw WireError.malformed("an integer")
  }

  private static func string(_ rest: inout ArraySlice<UInt8>) throws -> String {
    let isHuffman = rest.first ?? 0 >= 0x80
    let count = try integer(&rest, prefix: 7)
    guard rest.count >= count else { throw WireError.malformed("the end of a string") }
    defer { rest = rest.dropFirst(count) }
    let bytes = Array(rest.prefix(count))
    return String(decoding: isHuffman ? try huffmanText(bytes) : bytes, as: UTF8.self)
  }

  private static func huffmanText(_ bytes: [UInt8]) throws -> [UInt8] {
    var text: [UInt8] = [], code: UInt32 = 0, length = 0
    for bit in 0..<bytes.count * 8 {
      code = code << 1 | UInt32(bytes[bit / 8] >> (7 - bit % 8) & 1)
      length += 1
      guard length <= 30 else { throw WireError.malformed("Huffman's code") }
      guard let symbol = HPACKTables.symbols[length][code], symbol < 256 else { continue }
      text.append(UInt8(symbol))
      code = 0
      length = 0
    }
    return text
  }
}
