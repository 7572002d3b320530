/// Base64 of RFC 4648 §4: the standard alphabet, always padded, never with a line break.
///
/// Decoding is strict and accepts only what encoding writes, because a pin, a MAC or an envelope must have exactly one
/// spelling.
public enum Base64 {
  /// Why a text is not canonical base64.
  public enum DecodingError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The number of characters is not a multiple of four: the padding or a part is missing.
    case length(Int)
    /// A character outside the alphabet, at this offset in bytes. `-` and `_` belong to base64url.
    case alphabet(UInt8, at: Int)
    /// `=` where padding is not allowed, at this offset.
    case padding(at: Int)
    /// The last character has bits that encoding would have left zero.
    case trailingBits

    public var description: String {
      switch self {
      case .length(let count): "\(count) characters, but padded base64 has a multiple of 4"
      case .alphabet(let byte, let offset):
        "\(ASCII.quoted(byte)) at character \(offset + 1) is not of the base64 alphabet"
      case .padding(let offset): "misplaced '=' at character \(offset + 1)"
      case .trailingBits: "the last character is not canonical (its unused bits are not zero)"
      }
    }
  }

  /// The number of characters that `count` bytes become.
  @inlinable public static func encodedCount(_ count: Int) -> Int { (count + 2) / 3 * 4 }

  public static func encode(_ bytes: UnsafeRawBufferPointer, into buffer: inout ByteBuffer) {
    buffer.reserve(encodedCount(bytes.count))
    var at = 0
    while at < bytes.count {
      let left = bytes.count - at
      let first = bytes[at]
      let second = left > 1 ? bytes[at + 1] : 0
      let third = left > 2 ? bytes[at + 2] : 0
      buffer.append(character(first >> 2))
      buffer.append(character((first & 0x03) << 4 | second >> 4))
      buffer.append(left > 1 ? character((second & 0x0F) << 2 | third >> 6) : pad)
      buffer.append(left > 2 ? character(third & 0x3F) : pad)
      at += 3
    }
  }

  /// For settings and messages, not for the hot path.
  public static func encode(_ bytes: [UInt8]) -> String {
    var buffer = ByteBuffer(capacity: encodedCount(bytes.count))
    bytes.withUnsafeBytes { encode($0, into: &buffer) }
    return buffer.readable.text
  }

  public static func decode(_ text: UnsafeRawBufferPointer) throws(DecodingError) -> [UInt8] {
    var padding = 0
    if text.count > 0, text[text.count - 1] == pad {
      padding = text.count > 1 && text[text.count - 2] == pad ? 2 : 1
    }
    let digits = text.count - padding
    var bytes: [UInt8] = []
    bytes.reserveCapacity(text.count / 4 * 3)
    var window: UInt32 = 0
    var bits: UInt32 = 0
    for offset in 0..<digits {
      let byte = text[offset]
      guard let digit = value(byte) else {
        throw byte == pad ? .padding(at: offset) : .alphabet(byte, at: offset)
      }
      window = (window << 6 | UInt32(digit)) & 0xFFFF
      bits += 6
      if bits >= 8 {
        bits -= 8
        bytes.append(UInt8(truncatingIfNeeded: window >> bits))
      }
    }
    guard text.count % 4 == 0 else { throw .length(text.count) }
    guard window & ((1 << bits) - 1) == 0 else { throw .trailingBits }
    return bytes
  }

  public static func decode(_ text: String) throws(DecodingError) -> [UInt8] {
    let bytes = Array(text.utf8)
    return try bytes.withUnsafeBytes { raw in Result { () throws(DecodingError) in try decode(raw) } }.get()
  }

  /// Returns base64url without padding (RFC 4648 §5), as JOSE and ACME write it (RFC 7515 §2).
  public static func encodeURL(_ bytes: [UInt8]) -> String {
    String(encode(bytes).compactMap { $0 == "=" ? nil : $0 == "+" ? "-" : $0 == "/" ? "_" : $0 })
  }

  /// Reads base64url without padding: only what `encodeURL` writes.
  public static func decodeURL(_ text: String) throws(DecodingError) -> [UInt8] {
    var bytes = Array(text.utf8)
    for at in bytes.indices {
      switch bytes[at] {
      case UInt8(ascii: "-"): bytes[at] = UInt8(ascii: "+")
      case UInt8(ascii: "_"): bytes[at] = UInt8(ascii: "/")
      case UInt8(ascii: "+"), UInt8(ascii: "/"), pad: throw .alphabet(bytes[at], at: at)
      default: break
      }
    }
    bytes += Array(repeating: pad, count: (4 - bytes.count % 4) % 4)
    return try bytes.withUnsafeBytes { raw in Result { () throws(DecodingError) in try decode(raw) } }.get()
  }

  private static let pad: UInt8 = 61

  private static func character(_ value: UInt8) -> UInt8 {
    switch value {
    case 0..<26: 65 &+ value
    case 26..<52: 71 &+ value
    case 52..<62: value &- 4
    case 62: 43
    default: 47
    }
  }

  private static func value(_ character: UInt8) -> UInt8? {
    switch character {
    case 65...90: character &- 65
    case 97...122: character &- 71
    case 48...57: character &+ 4
    case 43: 62
    case 47: 63
    default: nil
    }
  }
}

extension ASCII {
  /// Formats a byte for a message: `'x'`, or `byte 0x0A` if it is not printable.
  static func quoted(_ byte: UInt8) -> String {
    (0x20..<0x7F).contains(byte)
      ? "'\(Character(Unicode.Scalar(byte)))'" : "byte 0x\(Hex.encode([byte], .upper))"
  }
}
