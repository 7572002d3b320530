/// Reads the header of the PROXY protocol, versions 1 and 2, from the first bytes of a connection. A total function of
/// these bytes, linear in them; it needs at most `most` of them.
///
/// It is never more lenient than nginx, and in these points as strict as HAProxy: addresses must be of the family that the
/// header names, a list of TLVs must be whole, and a command must be PROXY or LOCAL. As in nginx, a checksum is a TLV like
/// others, which isn't compared: TCP has one, and this one is no proof of a sender.
public enum ProxyHeaderParser {
  /// nginx's bound since 1.23 (NGX_PROXY_PROTOCOL_MAX_HEADER); version 1 has 107 bytes by its specification.
  public static let most = 4096
  static let mostVersion1 = 107

  public enum Outcome {
    /// The bytes so far may begin a header.
    case incomplete
    /// A header of that many bytes; nil if it names no client (UNKNOWN, LOCAL, not TCP over IP).
    case header(ProxyHeader?, length: Int)
    case broken(Fault)
  }

  public enum Fault: Error, Hashable, CustomStringConvertible {
    /// The first line of the bytes.
    case malformed([UInt8])
    case version(UInt8)
    case tooLarge

    /// nginx's words; bytes that aren't printable are shown as `\xHH`.
    public var description: String {
      switch self {
      case .malformed(let line):
        "broken header: \"\(line.reduce(into: "") { $0 += Self.printable($1) })\""
      case .version(let version): "unknown PROXY protocol version: \(version)"
      case .tooLarge: "header is too large"
      }
    }

    private static func printable(_ byte: UInt8) -> String {
      if (0x20..<0x7F).contains(byte), byte != 0x22, byte != 0x5C { return String(UnicodeScalar(byte)) }
      return "\\x" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
    }
  }

  private static let signature: [UInt8] = [13, 10, 13, 10, 0, 13, 10, 0x51, 0x55, 0x49, 0x54, 10]
  private static let opening = Array("PROXY ".utf8)

  public static func parse(_ bytes: UnsafeRawBufferPointer) -> Outcome {
    do throws(Stop) {
      return bytes.first == signature[0] ? try version2(bytes) : try version1(bytes)
    } catch {
      switch error {
      case .incomplete: return .incomplete
      case .malformed:
        let line = bytes.prefix(mostVersion1).prefix { $0 != 13 && $0 != 10 }
        return .broken(.malformed(Array(line)))
      case .fault(let fault): return .broken(fault)
      }
    }
  }

  private enum Stop: Error {
    case incomplete, malformed
    case fault(Fault)
  }

  // MARK: Version 1

  /// A place in a line of version 1.
  private struct Line {
    let bytes: UnsafeRawBufferPointer
    var place = 0

    mutating func next() throws(Stop) -> UInt8 {
      guard place < bytes.count else { throw place >= mostVersion1 ? .malformed : .incomplete }
      guard place < mostVersion1 else { throw .malformed }
      defer { place += 1 }
      return bytes[place]
    }

    mutating func expect(_ text: some Sequence<UInt8>) throws(Stop) {
      for byte in text where try next() != byte { throw .malformed }
    }

    /// The bytes up to a separator; at most `limit`.
    mutating func word(endedBy end: UInt8, limit: Int) throws(Stop) -> Slice<UnsafeRawBufferPointer> {
      let start = place
      while true {
        let byte = try next()
        if byte == end { break }
        guard byte > 0x20, byte < 0x7F, place - start <= limit else { throw .malformed }
      }
      return bytes[start..<(place - 1)]
    }
  }

  private static func version1(_ bytes: UnsafeRawBufferPointer) throws(Stop) -> Outcome {
    var line = Line(bytes: bytes)
    try line.expect(opening)
    let first = try line.next()
    if first == UInt8(ascii: "U") {
      try line.expect("NKNOWN".utf8)
      // What follows a space counts for nothing, up to the end of the line.
      var last = try line.next()
      guard last == 0x20 || last == 13 else { throw .malformed }
      while true {
        let byte = try line.next()
        if last == 13, byte == 10 { return .header(nil, length: line.place) }
        last = byte
      }
    }
    guard first == UInt8(ascii: "T") else { throw .malformed }
    try line.expect("CP".utf8)
    let family = try line.next()
    guard family == UInt8(ascii: "4") || family == UInt8(ascii: "6") else { throw .malformed }
    try line.expect(CollectionOfOne(0x20))
    let source = try line.word(endedBy: 0x20, limit: 45), destination = try line.word(endedBy: 0x20, limit: 45)
    let ports = (try line.word(endedBy: 0x20, limit: 5), try line.word(endedBy: 13, limit: 5))
    try line.expect(CollectionOfOne(10))
    guard hasNoLeadingZero(source), hasNoLeadingZero(destination), hasNoLeadingZero(ports.0),
      hasNoLeadingZero(ports.1), let sourcePort = SocketAddress.port(ports.0),
      let destinationPort = SocketAddress.port(ports.1), let from = SocketAddress.literal(source, port: sourcePort),
      let to = SocketAddress.literal(destination, port: destinationPort),
      from.isIPv4 == (family == UInt8(ascii: "4")), to.isIPv4 == from.isIPv4
    else { throw .malformed }
    let header = ProxyHeader(
      source: from, destination: to, sourceText: Array(source), destinationText: Array(destination))
    return .header(header, length: line.place)
  }

  /// Whether every number is written without a leading zero, which some read as octal (proxy-protocol.txt, 2.1). An
  /// IPv6 address has groups of hexadecimal digits, in which it means nothing.
  private static func hasNoLeadingZero(_ text: Slice<UnsafeRawBufferPointer>) -> Bool {
    text.contains(UInt8(ascii: ":"))
      || text.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).allSatisfy {
        $0.count < 2 || $0.first != UInt8(ascii: "0")
      }
  }

  // MARK: Version 2

  private static func version2(_ bytes: UnsafeRawBufferPointer) throws(Stop) -> Outcome {
    for (byte, expected) in zip(bytes, signature) where byte != expected { throw .malformed }
    guard bytes.count >= 16 else { throw .incomplete }
    guard bytes[12] >> 4 == 2 else { throw .fault(.version(bytes[12] >> 4)) }
    let length = Int(bytes[14]) << 8 | Int(bytes[15])
    guard 16 + length <= most else { throw .fault(.tooLarge) }
    guard bytes.count >= 16 + length else { throw .incomplete }
    let content = Array(bytes[16..<(16 + length)])
    switch bytes[12] & 15 {
    case 0: return .header(nil, length: 16 + length)
    case 1: break
    default: throw .malformed
    }
    let addresses: Int
    switch bytes[13] {
    case 0x11: addresses = 12
    case 0x21: addresses = 36
    // Unspecified, and a stream of a Unix socket: as nginx, it names no client.
    case 0x00, 0x31: return .header(nil, length: 16 + length)
    // Datagrams, which this connection isn't, and what the specification reserves.
    default: throw .malformed
    }
    guard content.count >= addresses, ProxyTLV.isWhole(content[addresses...]) else { throw .malformed }
    return .header(header(content, addresses: addresses), length: 16 + length)
  }

  private static func header(_ content: [UInt8], addresses: Int) -> ProxyHeader {
    func number(_ range: Range<Int>) -> UInt64 { content[range].reduce(0) { $0 << 8 | UInt64($1) } }
    func port(_ start: Int) -> UInt16 { UInt16(truncatingIfNeeded: number(start..<(start + 2))) }
    let source: SocketAddress, destination: SocketAddress
    if addresses == 12 {
      source = .ipv4(address: UInt32(truncatingIfNeeded: number(0..<4)), port: port(8))
      destination = .ipv4(address: UInt32(truncatingIfNeeded: number(4..<8)), port: port(10))
    } else {
      source = .ipv6(high: number(0..<8), low: number(8..<16), port: port(32))
      destination = .ipv6(high: number(16..<24), low: number(24..<32), port: port(34))
    }
    return ProxyHeader(source: source, destination: destination, extensions: Array(content[addresses...]))
  }
}

extension SocketAddress {
  fileprivate var isIPv4: Bool { if case .ipv4 = self { true } else { false } }
}
