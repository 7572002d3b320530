/// The one request of a probe over HTTP/2, and as much of the response as the report needs: RFC 9113 and RFC 7541.
///
/// The bytes come from an unknown server: each reading stops at their end, and none fails.
package enum ProbeHTTP2 {
  /// The client's preface, empty settings, and a GET as stream 1.
  static func request(host: String, path: String) -> [UInt8] {
    // From the static table: `:method GET`, `:scheme https`; then names of the table with literal values.
    let fields =
      [0x82, 0x87] + literal([0x01], host) + literal([0x04], path) + literal([0x0F, 0x2B], "sallyport-probe")
    return Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + frame(type: 4, flags: 0, stream: 0, [])
      // END_STREAM and END_HEADERS.
      + frame(type: 1, flags: 0x05, stream: 1, fields)
  }

  private static func frame(type: UInt8, flags: UInt8, stream: UInt8, _ payload: [UInt8]) -> [UInt8] {
    let count = UInt32(clamping: payload.count)
    return [
      UInt8(truncatingIfNeeded: count >> 16), UInt8(truncatingIfNeeded: count >> 8), UInt8(truncatingIfNeeded: count),
      type, flags, 0, 0, 0, stream,
    ] + payload
  }

  /// A field that no table keeps, with a value that is not Huffman-coded (RFC 7541 §5).
  private static func literal(_ name: [UInt8], _ value: String) -> [UInt8] {
    var length: [UInt8] = []
    var rest = value.utf8.count
    if rest < 127 {
      length = [UInt8(clamping: rest)]
    } else {
      length = [127]
      rest -= 127
      while rest >= 128 {
        length.append(UInt8(rest % 128) | 0x80)
        rest /= 128
      }
      length.append(UInt8(clamping: rest))
    }
    return name + length + Array(value.utf8)
  }

  /// What the frames of a server say of the request.
  package struct Answer: Sendable, Equatable {
    /// The server answered the request, or reset it: it let the client in.
    package private(set) var isAnswered = false
    /// nil also for a status in a coding that the probe does not read.
    package private(set) var status: Int?
    /// Whether nothing more of the request is to come.
    package private(set) var isComplete = false
    /// The error code of a GOAWAY.
    package private(set) var farewell: UInt32?

    package init(_ bytes: [UInt8]) {
      var rest = bytes[...]
      while rest.count >= 9, !isComplete {
        let head = Array(rest.prefix(9))
        let count = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
        guard rest.count >= 9 + count else { return }
        read(
          type: head[3], flags: head[4], isRequest: head[5] & 0x7F == 0 && head[6] == 0 && head[7] == 0 && head[8] == 1,
          Array(rest.dropFirst(9).prefix(count)))
        rest = rest.dropFirst(9 + count)
      }
    }

    private mutating func read(type: UInt8, flags: UInt8, isRequest: Bool, _ payload: [UInt8]) {
      switch type {
      case 0 where isRequest: isComplete = flags & 0x01 != 0
      case 1 where isRequest:
        // Padding comes first with its length, then a priority of five bytes (RFC 9113 §6.2).
        let start = (flags & 0x08 != 0 ? 1 : 0) + (flags & 0x20 != 0 ? 5 : 0)
        let found = ProbeHTTP2.status(payload.dropFirst(start))
        if status == nil { status = found }
        isAnswered = true
        // An informational response is not the last one.
        isComplete = flags & 0x01 != 0
      case 3 where isRequest:
        isAnswered = true
        isComplete = true
      case 7:
        let error = payload.dropFirst(4).prefix(4).reduce(0) { $0 << 8 | UInt32($1) }
        farewell = error
        // Without an error, the server may still answer a request that is not past its last one (RFC 9113 §6.8).
        isComplete = error != 0 || payload.prefix(4).reduce(0) { $0 << 8 | UInt32($1) } & 0x7FFF_FFFF == 0
      default: break
      }
    }
  }

  /// The status of a header block, whose first field it is (RFC 9113 §8.3).
  static func status(_ block: ArraySlice<UInt8>) -> Int? {
    var rest = block
    // Updates of the dynamic table's size (RFC 7541 §6.3).
    while let first = rest.first, first & 0xE0 == 0x20 {
      rest = rest.dropFirst()
      guard first & 0x1F == 0x1F else { continue }
      while let next = rest.first, next & 0x80 != 0 { rest = rest.dropFirst() }
      rest = rest.dropFirst()
    }
    guard let first = rest.first else { return nil }
    let known = [200, 204, 206, 304, 400, 404, 500]
    if (0x88...0x8E).contains(first) { return known[Int(first) - 0x88] }
    let name = first & 0xC0 == 0x40 ? first & 0x3F : first & 0x0F
    guard first & 0x80 == 0, (8...14).contains(name), let length = rest.dropFirst().first else { return nil }
    let value = Array(rest.dropFirst(2).prefix(Int(length & 0x7F)))
    // Int alone would take a sign (RFC 9110 §15: three digits).
    let text = length & 0x80 == 0 ? String(decoding: value, as: UTF8.self) : digits(value)
    guard text.utf8.count == 3, let status = Int(text), status >= 100 else { return nil }
    return status
  }

  /// Digits in the Huffman code of RFC 7541, appendix B: 0 to 2 have five bits, 3 to 9 have six.
  private static func digits(_ bytes: [UInt8]) -> String {
    var text = ""
    var code = 0
    var length = 0
    for byte in bytes {
      for shift in (0..<8).reversed() {
        code = code << 1 | Int(byte >> UInt8(shift)) & 1
        length += 1
        if length == 5, code <= 2 {
          text += "\(code)"
        } else if length == 6, (25...31).contains(code) {
          text += "\(code - 22)"
        } else {
          if length > 6 { return text }
          continue
        }
        code = 0
        length = 0
      }
    }
    return text
  }
}
