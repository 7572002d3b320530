/// Reads header blocks of HTTP/2 (RFC 7541), by the simplest code: apart from the library under test, which writes them.
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
    if (1...Self.fixed.count).contains(index) { return Self.fixed[index - 1] }
    let own = index - Self.fixed.count - 1
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
        let start = starts[length]
        guard code >= start.code, Int(code - start.code) < start.symbols.count else { continue }
        guard let symbol = UInt8(exactly: start.symbols[Int(code - start.code)]) else { throw Malformed() }
        text.append(symbol)
        (code, length) = (0, 0)
      }
    }
    // What is left are at most seven bits, all ones.
    guard length < 8, code == 1 << UInt32(length) - 1 else { throw Malformed() }
    return text
  }

  /// The code is canonical: among the symbols of one length, codes rise with the symbols. For each length, the first code
  /// and the symbols.
  private static let starts: [(code: UInt32, symbols: [Int])] = {
    var next: UInt32 = 0
    return (0...30).map { length in
      next <<= 1
      let symbols = lengths.indices.filter { length > 0 && lengths[$0] == length }
      defer { next += UInt32(symbols.count) }
      return (next, symbols)
    }
  }()

  /// Of the symbols 0 to 255, and of the end (RFC 7541, appendix B).
  private static let lengths: [Int] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28,
    28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12,
    10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6,
    5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22,
    22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20,
    22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28,
    27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28,
    27, 27, 27, 27, 27, 26, 30,
  ]

  /// The static table (RFC 7541, appendix A).
  private static let fixed: [(name: String, value: String)] = {
    let valued = [
      (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
      (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
      (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
      ("accept-encoding", "gzip, deflate"),
    ]
    let names = """
      accept-language accept-ranges accept access-control-allow-origin age allow authorization cache-control \
      content-disposition content-encoding content-language content-length content-location content-range content-type \
      cookie date etag expect expires from host if-match if-modified-since if-none-match if-range if-unmodified-since \
      last-modified link location max-forwards proxy-authenticate proxy-authorization range referer refresh retry-after \
      server set-cookie strict-transport-security transfer-encoding user-agent vary via www-authenticate
      """
    return valued.map { (name: $0.0, value: $0.1) } + names.split(separator: " ").map { (String($0), "") }
  }()
}
