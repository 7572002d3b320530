/// Messages at the beginning of a connection of PostgreSQL (documentation, "Message Formats"): a length that counts
/// itself, then a code. Lengths in bytes.
enum PostgresMessage {
  static let cancelCode: UInt32 = 80_877_102
  static let sslCode: UInt32 = 80_877_103
  static let gssCode: UInt32 = 80_877_104
  static let sslRequest: [UInt8] = [0, 0, 0, 8, 0x04, 0xD2, 0x16, 0x2F]

  /// PostgreSQL's MAX_STARTUP_PACKET_LENGTH, and the length itself.
  static let mostStartup = 10_004
  /// A CancelRequest has the process and a key of 4 bytes, or up to 256 since protocol 3.2.
  static let cancelLengths = 16...268
  /// An ErrorResponse before TLS; libpq takes 30,000 at most.
  static let mostError = 30_000

  /// An ErrorResponse of severity FATAL. `code`: SQLSTATE.
  static func fatal(_ code: String, _ message: String) -> [UInt8] {
    var fields: [UInt8] = []
    for (type, value) in [("S", "FATAL"), ("V", "FATAL"), ("C", code), ("M", message)] {
      fields += Array(type.utf8) + Array(value.utf8) + [0]
    }
    fields.append(0)
    let length = UInt32(clamping: fields.count + 4)
    return [UInt8(ascii: "E")] + [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: length >> $0) } + fields
  }

  /// The text of field `M` of an ErrorResponse, without its first five bytes; empty without the field.
  static func message(ofError fields: UnsafeRawBufferPointer) -> [UInt8] {
    for field in fields.split(separator: 0) where field.first == UInt8(ascii: "M") { return Array(field.dropFirst()) }
    return []
  }
}
