/// Reads header blocks of HTTP/2 (RFC 7541) with a dynamic table, apart from the library under test, which writes them.
package struct HPACKReader {
  package struct Malformed: Error {}

  /// Newest first.
  private var table: [(name: String, value: String)] = []
  private var limit = 4096

  package init() {}

  /// Decodes one whole block.
  package mutating func fields(of block: [UInt8]) throws -> [(name: String, value: String)] {
    var at = 0
    var fields: [(name: String, value: String)] = []
    while at < block.count {
      let first = block[at]
      switch first {
      case 0x80...: fields.append(try entry(integer(block, &at, bits: 7)))
      case 0x40...:
        let field = try literal(block, &at, bits: 6)
        table.insert(field, at: 0)
        evict()
        fields.append(field)
      case 0x20...:
        limit = try integer(block, &at, bits: 5)
        evict()
      default: fields.append(try literal(block, &at, bits: 4))
      }
    }
    return fields
  }

  private mutating func evict() {
    func size() -> Int { table.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count + 32 } }
    while !table.isEmpty, size() > limit { table.removeLast() }
  }

  private func entry(_ index: Int) throws -> (name: String, value: String) {
    if (1...HPACKTables.fields.count).contains(index) { return HPACKTables.fields[index - 1] }
    let own = index - HPACKTables.fields.count - 1
    guard table.indices.contains(own) else { throw Malformed() }
    return table[own]
  }

  private func literal(_ block: [UInt8], _ at: inout Int, bits: Int) throws -> (name: String, value: String) {
    let index = try integer(block, &at, bits: bits)
    let name = try index == 0 ? string(block, &at) : entry(index).name
    return (name, try string(block, &at))
  }

  private func integer(_ block: [UInt8], _ at: inout Int, bits: Int) throws -> Int {
    guard at < block.count else { throw Malformed() }
    let most = 1 << bits - 1
    var value = Int(block[at]) & most
    at += 1
    guard value == most else { return value }
    for shift in stride(from: 0, through: 28, by: 7) {
      guard at < block.count else { throw Malformed() }
      value += Int(block[at] & 0x7f) << shift
      at += 1
      if block[at - 1] < 0x80 { return value }
    }
    throw Malformed()
  }

  private func string(_ block: [UInt8], _ at: inout Int) throws -> String {
    guard at < block.count else { throw Malformed() }
    let isCoded = block[at] >= 0x80
    let count = try integer(block, &at, bits: 7)
    guard at + count <= block.count else { throw Malformed() }
    defer { at += count }
    let bytes = block[at..<at + count]
    return String(decoding: isCoded ? try Self.decoded(bytes) : Array(bytes), as: UTF8.self)
  }

  // MARK: Huffman's code

  private static func decoded(_ bytes: ArraySlice<UInt8>) throws -> [UInt8] {
    var text: [UInt8] = []
    var code: UInt32 = 0, length = 0
    for byte in bytes {
      for bit in (0..<8).reversed() {
        code = code << 1 | UInt32(byte >> bit & 1)
        length += 1
        guard length <= 30 else { throw Malformed() }
        guard let found = HPACKTables.symbols[length][code] else { continue }
        guard let symbol = UInt8(exactly: found) else { throw Malformed() }
        text.append(symbol)
        (code, length) = (0, 0)
      }
    }
    // What is left are at most seven bits, all ones.
    guard length < 8, code == 1 << UInt32(length) - 1 else { throw Malformed() }
    return text
  }
}
