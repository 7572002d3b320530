/// Writes headers of the PROXY protocol, versions 1 and 2 (haproxy.org/download/3.0/doc/proxy-protocol.txt), the other
/// side of `ProxyHeaderParser`. Total functions; a header is never longer than `ProxyHeaderParser.most`.
public enum ProxyHeaderWriter {
  /// A TLV of version 2.
  public struct Extension: Sendable, Hashable {
    public var type: UInt8
    public var value: [UInt8]
    public init(_ type: UInt8, _ value: [UInt8]) {
      self.type = type
      self.value = value
    }
  }

  /// What PP2_TYPE_SSL says of a client's TLS.
  public struct ClientSecurity: Sendable, Hashable {
    /// What is known of the client's certificate. Without a verified one, a header tells nothing of a certificate.
    public enum Proof: Sendable, Hashable {
      case unverified
      /// `isOfSession`: the client showed the certificate in the handshake that began the session, not in this one.
      case verified(isOfSession: Bool)
    }
    public var proof: Proof
    /// Inside PP2_TYPE_SSL, in this order.
    public var details: [Extension]
    public init(proof: Proof, details: [Extension]) {
      self.proof = proof
      self.details = details
    }
  }

  /// The whole header of a connection that sallyport makes for itself, such as a health check.
  public static let ownVersion1 = Array("PROXY UNKNOWN\r\n".utf8)
  public static let ownVersion2 = signature + [0x20, 0x00, 0x00, 0x00]

  private static let signature: [UInt8] = [13, 10, 13, 10, 0, 13, 10, 0x51, 0x55, 0x49, 0x54, 10]

  /// `source`: the client. A client on a unix socket, which has no address, is UNKNOWN.
  public static func version1(source: SocketAddress, destination: SocketAddress?) -> [UInt8] {
    guard let pair = Pair(source, destination) else { return ownVersion1 }
    let family = pair.isIPv4 ? "TCP4" : "TCP6"
    let (from, to) = (pair.source, pair.destination)
    return Array("PROXY \(family) \(from.host) \(to.host) \(from.port ?? 0) \(to.port ?? 0)\r\n".utf8)
  }

  /// A client on a unix socket has the family AF_UNSPEC. It is not LOCAL: that would say that the connection is
  /// sallyport's own. `extensions` that no longer fit are left out, the last ones first.
  public static func version2(
    source: SocketAddress, destination: SocketAddress?, tls: ClientSecurity?, extensions: [Extension] = []
  ) -> [UInt8] {
    var content: [UInt8] = []
    var family: UInt8 = 0
    if let pair = Pair(source, destination) {
      family = pair.isIPv4 ? 0x11 : 0x21
      content = pair.source.networkBytes + pair.destination.networkBytes
      for address in [pair.source, pair.destination] { content += bytes(address.port ?? 0) }
    }
    let room = ProxyHeaderParser.most - 16
    for item in (tls.map { [$0.extension] } ?? []) + extensions {
      guard item.value.count <= room - content.count - 3 else { continue }
      content += item.encoded
    }
    return signature + [0x21, family] + bytes(UInt16(clamping: content.count)) + content
  }

  fileprivate static func bytes(_ number: UInt16) -> [UInt8] { [UInt8(number >> 8), UInt8(number & 0xFF)] }

  /// Two addresses of one family. Where the families differ, IPv4 addresses are written as `::ffff:a.b.c.d`.
  private struct Pair {
    var source: SocketAddress
    var destination: SocketAddress
    var isIPv4: Bool

    /// nil if the client has no address. A destination without one is all zeros.
    init?(_ source: SocketAddress, _ destination: SocketAddress?) {
      let isIPv4: Bool
      switch source {
      case .ipv4: isIPv4 = true
      case .ipv6: isIPv4 = false
      case .unix, .name: return nil
      }
      switch (isIPv4, destination) {
      case (true, .ipv6?): (self.source, self.destination, self.isIPv4) = (source.mapped, destination ?? source, false)
      case (true, .ipv4(let address, let port)?):
        (self.source, self.destination, self.isIPv4) = (source, .ipv4(address: address, port: port), true)
      case (true, _): (self.source, self.destination, self.isIPv4) = (source, .ipv4(address: 0, port: 0), true)
      case (false, .ipv4?), (false, .ipv6?):
        (self.source, self.destination, self.isIPv4) = (source, (destination ?? source).mapped, false)
      case (false, _): (self.source, self.destination, self.isIPv4) = (source, .ipv6(high: 0, low: 0, port: 0), false)
      }
    }
  }
}

extension ProxyHeaderWriter.Extension {
  /// A value of more than 65,535 bytes is cut; the room of a header is smaller.
  fileprivate var encoded: [UInt8] {
    let value = value.prefix(0xFFFF)
    return [type] + ProxyHeaderWriter.bytes(UInt16(clamping: value.count)) + value
  }
}

extension ProxyHeaderWriter.ClientSecurity {
  /// The flags PP2_CLIENT_SSL, PP2_CLIENT_CERT_CONN and PP2_CLIENT_CERT_SESS, the result of the verification (0 for a
  /// verified client only), and the details.
  fileprivate var `extension`: ProxyHeaderWriter.Extension {
    let head: [UInt8] =
      switch proof {
      case .unverified: [0x01, 0, 0, 0, 1]
      case .verified(isOfSession: true): [0x05, 0, 0, 0, 0]
      case .verified(isOfSession: false): [0x07, 0, 0, 0, 0]
      }
    return ProxyHeaderWriter.Extension(ProxyTLV.ssl, head + details.flatMap(\.encoded))
  }
}

extension SocketAddress {
  /// The address in network order, without the port; empty for a unix socket.
  fileprivate var networkBytes: [UInt8] {
    switch self {
    case .ipv4(let address, _): withUnsafeBytes(of: address.bigEndian) { Array($0) }
    case .ipv6(let high, let low, _):
      withUnsafeBytes(of: high.bigEndian) { Array($0) } + withUnsafeBytes(of: low.bigEndian) { Array($0) }
    case .unix, .name: []
    }
  }

  /// An IPv4 address as `::ffff:a.b.c.d`.
  fileprivate var mapped: SocketAddress {
    guard case .ipv4(let address, let port) = self else { return self }
    return .ipv6(high: 0, low: 0xFFFF_0000_0000 | UInt64(address), port: port)
  }
}
