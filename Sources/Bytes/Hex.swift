/// Hexadecimal octets, as in fingerprints and serials.
public enum Hex {
  public enum Letters: Sendable { case lower, upper }

  /// Why a text is not a sequence of hexadecimal octets.
  public enum DecodingError: Error, Sendable, Hashable, CustomStringConvertible {
    /// An odd number of digits.
    case oddCount(Int)
    /// A character that is not a hexadecimal digit, at this offset in bytes.
    case alphabet(UInt8, at: Int)
    /// A colon that is not between two octets, or a missing colon when other octets have one.
    case colon(at: Int)

    public var description: String {
      switch self {
      case .oddCount(let count): "\(count) hexadecimal digits, but an octet has two"
      case .alphabet(let byte, let offset):
        "\(ASCII.quoted(byte)) at character \(offset + 1) is no hexadecimal digit"
      case .colon(let offset): "a colon is missing or misplaced at character \(offset + 1)"
      }
    }
  }

  public static func encode(_ bytes: UnsafeRawBufferPointer, _ letters: Letters = .lower, into buffer: inout ByteBuffer)
  {
    buffer.reserve(bytes.count * 2)
    for byte in bytes {
      buffer.append(digit(byte >> 4, letters))
      buffer.append(digit(byte & 0x0F, letters))
    }
  }

  /// Appends the 16 lower-case digits of a word, eight at a time: each byte of a word of eight holds a number under 16 and
  /// becomes its digit.
  public static func encode(_ word: UInt64, into buffer: inout ByteBuffer) {
    for half in [UInt32(truncatingIfNeeded: word >> 32), UInt32(truncatingIfNeeded: word)] {
      var spread = UInt64(half)
      spread = (spread | spread << 16) & 0x0000_FFFF_0000_FFFF
      spread = (spread | spread << 8) & 0x00FF_00FF_00FF_00FF
      spread = (spread | spread << 4) & 0x0F0F_0F0F_0F0F_0F0F
      let letters = (spread &+ 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101
      let digits = spread &+ 0x3030_3030_3030_3030 &+ letters &* 39
      withUnsafeBytes(of: digits.bigEndian) { buffer.append($0) }
    }
  }

  /// For settings and messages, not for the hot path.
  public static func encode(_ bytes: [UInt8], _ letters: Letters = .lower) -> String {
    var buffer = ByteBuffer(capacity: bytes.count * 2)
    bytes.withUnsafeBytes { encode($0, letters, into: &buffer) }
    return buffer.readable.text
  }

  /// Decodes octets of two digits in either case, separated by colons everywhere (`AB:CD`) or nowhere (`abcd`).
  public static func decode(_ text: String) throws(DecodingError) -> [UInt8] {
    let characters = Array(text.utf8)
    let parted = characters.count > 2 && characters[2] == colon
    var bytes: [UInt8] = []
    bytes.reserveCapacity(characters.count / 2)
    var high: UInt8?
    for (offset, character) in characters.enumerated() {
      let octetWidth = 3
      if parted, offset % octetWidth == 2 {
        guard character == colon, offset + 1 < characters.count else { throw .colon(at: offset) }
        continue
      }
      guard let value = ASCII.hexValue(character) else {
        throw character == colon ? .colon(at: offset) : .alphabet(character, at: offset)
      }
      if let first = high {
        bytes.append(first << 4 | value)
        high = nil
      } else {
        high = value
      }
    }
    guard high == nil else { throw .oddCount(bytes.count * 2 + 1) }
    return bytes
  }

  private static let colon: UInt8 = 58

  private static func digit(_ value: UInt8, _ letters: Letters) -> UInt8 {
    if value < 10 { return 48 &+ value }
    return letters == .lower ? 87 &+ value : 55 &+ value
  }
}
