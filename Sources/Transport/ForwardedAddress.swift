import Bytes
import Glibc

extension SocketAddress {
  /// An address as proxies write it into X-Forwarded-For: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`,
  /// `[2001:db8::1]:80` (nginx's `ngx_parse_addr_port`). Without a port, the port is 0. nil for any other text; brackets
  /// without a port are such a text, as in nginx. A total function; it reads at most 64 bytes.
  public init?(forwarded text: UnsafeRawBufferPointer) {
    // An address of IPv6 takes at most 45 bytes; brackets and a port add 8.
    guard !text.isEmpty, text.count <= 64 else { return nil }
    if let address = Self.literal(text[...], port: 0) {
      self = address
      return
    }
    let host: Slice<UnsafeRawBufferPointer>, rest: Slice<UnsafeRawBufferPointer>
    if text[0] == UInt8(ascii: "[") {
      guard let close = text.firstIndex(of: UInt8(ascii: "]")), close + 1 < text.count,
        text[close + 1] == UInt8(ascii: ":")
      else { return nil }
      (host, rest) = (text[1..<close], text[(close + 2)...])
    } else {
      guard let colon = text.firstIndex(of: UInt8(ascii: ":")) else { return nil }
      (host, rest) = (text[..<colon], text[(colon + 1)...])
    }
    guard let port = Self.port(rest), port > 0, let address = Self.literal(host, port: port) else { return nil }
    self = address
  }

  /// A decimal number up to 65535, of at most five digits.
  static func port(_ text: Slice<UnsafeRawBufferPointer>) -> UInt16? {
    guard !text.isEmpty, text.count <= 5 else { return nil }
    var value: UInt32 = 0
    for byte in text {
      guard byte &- 48 < 10 else { return nil }
      value = value * 10 + UInt32(byte &- 48)
    }
    return UInt16(exactly: value)
  }

  /// An address without brackets and port, of either family.
  static func literal(_ text: Slice<UnsafeRawBufferPointer>, port: UInt16) -> SocketAddress? {
    // No other byte is part of an address; a NUL would end the text for inet_pton.
    let isAddress = text.allSatisfy {
      $0 &- 48 < 10 || ($0 | 0x20) &- 97 < 6 || $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: ".")
    }
    guard isAddress, !text.isEmpty, text.count <= 45 else { return nil }
    if text.contains(UInt8(ascii: ":")) {
      return SocketAddress(literal: String(decoding: text, as: UTF8.self), port: port)
    }
    return ipv4(text).map { .ipv4(address: $0, port: port) }
  }

  /// Four decimal numbers up to 255. Leading zeros are decimal, as in nginx.
  private static func ipv4(_ text: Slice<UnsafeRawBufferPointer>) -> UInt32? {
    var address: UInt32 = 0, octet: UInt32 = 0, digits = 0, dots = 0
    for byte in text {
      if byte == UInt8(ascii: ".") {
        guard digits > 0, dots < 3 else { return nil }
        address = address << 8 | octet
        (octet, digits, dots) = (0, 0, dots + 1)
      } else {
        guard byte &- 48 < 10 else { return nil }
        octet = octet * 10 + UInt32(byte &- 48)
        digits += 1
        guard octet <= 255 else { return nil }
      }
    }
    guard dots == 3, digits > 0 else { return nil }
    return address << 8 | octet
  }
}
