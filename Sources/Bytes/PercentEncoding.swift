/// Percent-encoding (RFC 3986 §2.1), for settings, messages and answers of our own, not for targets of requests.
public enum PercentEncoding {
  /// Encodes all but the unreserved characters (§2.3), as nginx's NGX_ESCAPE_URI_COMPONENT does.
  public static func encode(_ text: some StringProtocol) -> [UInt8] {
    var encoded = ByteBuffer(capacity: text.utf8.count)
    for byte in text.utf8 {
      switch byte {
      case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: encoded.append(byte)
      default:
        encoded.append(UInt8(ascii: "%"))
        withUnsafeBytes(of: byte) { Hex.encode($0, .upper, into: &encoded) }
      }
    }
    return Array(encoded.readable)
  }

  /// Decodes what is encoded. A `%` without two digits behind it stands for itself.
  public static func decode(_ bytes: some Sequence<UInt8>) -> [UInt8] {
    var rest = Array(bytes)[...]
    var decoded: [UInt8] = []
    decoded.reserveCapacity(rest.count)
    while let byte = rest.popFirst() {
      let digits = byte == UInt8(ascii: "%") ? rest.prefix(2).compactMap { ASCII.hexValue($0) } : []
      guard digits.count == 2 else {
        decoded.append(byte)
        continue
      }
      decoded.append(digits[0] << 4 | digits[1])
      rest = rest.dropFirst(2)
    }
    return decoded
  }
}
