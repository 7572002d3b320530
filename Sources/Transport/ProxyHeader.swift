/// What the header of a PROXY protocol connection says of the client (haproxy.org/download/3.0/doc/proxy-protocol.txt).
///
/// Anybody may send one: it must not count as the client's address unless the sender is trusted (`set_real_ip_from`).
/// A class, so that a connection without one pays one pointer.
public final class ProxyHeader: Sendable {
  public let source: SocketAddress
  public let destination: SocketAddress
  /// The addresses as sent (version 1), or as the system writes them (version 2).
  public let sourceText: [UInt8]
  public let destinationText: [UInt8]
  /// The TLVs of version 2, whole.
  private let extensions: [UInt8]

  package init(
    source: SocketAddress, destination: SocketAddress, sourceText: [UInt8]? = nil, destinationText: [UInt8]? = nil,
    extensions: [UInt8] = []
  ) {
    self.source = source
    self.destination = destination
    self.sourceText = sourceText ?? Array(source.host.utf8)
    self.destinationText = destinationText ?? Array(destination.host.utf8)
    self.extensions = extensions
  }

  /// The value of a TLV; nil if the header has none of this kind.
  public func value(of kind: ProxyTLV) -> [UInt8]? {
    switch kind {
    case .outer(let type): return ProxyTLV.find(type, in: extensions[...]).map { Array($0) }
    case .inner(let type):
      guard let outer = ProxyTLV.find(ProxyTLV.ssl, in: extensions[...]), outer.count >= 5 else { return nil }
      return ProxyTLV.find(type, in: outer.dropFirst(5)).map { Array($0) }
    case .verification:
      guard let outer = ProxyTLV.find(ProxyTLV.ssl, in: extensions[...]), outer.count >= 5 else { return nil }
      let result = outer.dropFirst().prefix(4).reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
      return Array("\(result)".utf8)
    }
  }
}

/// Which TLV of a header a variable names (nginx's `$proxy_protocol_tlv_NAME`).
public enum ProxyTLV: Sendable, Hashable {
  case outer(UInt8)
  /// Inside PP2_TYPE_SSL.
  case inner(UInt8)
  /// The number in PP2_TYPE_SSL that says whether the client's certificate was verified: 0 if it was.
  case verification

  static let ssl: UInt8 = 0x20

  /// `alpn`, `authority`, `unique_id`, `ssl`, `netns`, `0x…`, and with `ssl_` before them `version`, `cn`, `cipher`,
  /// `sig_alg`, `key_alg`, `verify`, `0x…`. nil for another name. In lower case.
  public init?(name: some StringProtocol) {
    let isInner = name.hasPrefix("ssl_")
    let rest = isInner ? String(name.dropFirst(4)) : String(name)
    if isInner, rest == "verify" {
      self = .verification
    } else if let type = isInner ? Self.innerNames[rest] : Self.outerNames[rest] {
      self = isInner ? .inner(type) : .outer(type)
    } else if rest.hasPrefix("0x"), let type = UInt8(rest.dropFirst(2), radix: 16),
      rest.utf8.dropFirst(2).first != UInt8(ascii: "+")
    {
      self = isInner ? .inner(type) : .outer(type)
    } else {
      return nil
    }
  }

  /// The name after `$proxy_protocol_tlv_`, by which messages tell the variable; a type is told as `0x…`.
  public var name: String {
    switch self {
    case .outer(let type): "0x\(String(type, radix: 16))"
    case .inner(let type): "ssl_0x\(String(type, radix: 16))"
    case .verification: "ssl_verify"
    }
  }

  private static let outerNames: [String: UInt8] = [
    "alpn": 0x01, "authority": 0x02, "unique_id": 0x05, "ssl": ssl, "netns": 0x30,
  ]
  private static let innerNames: [String: UInt8] = [
    "version": 0x21, "cn": 0x22, "cipher": 0x23, "sig_alg": 0x24, "key_alg": 0x25,
  ]

  /// The first TLV of a type; nil if there is none, or if the list is broken before it.
  static func find(_ type: UInt8, in list: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
    var rest = list
    while let (found, value, after) = next(in: rest) {
      if found == type { return value }
      rest = after
    }
    return nil
  }

  /// Whether the list is made of whole TLVs.
  static func isWhole(_ list: ArraySlice<UInt8>) -> Bool {
    var rest = list
    while !rest.isEmpty {
      guard let found = next(in: rest) else { return false }
      rest = found.after
    }
    return true
  }

  private static func next(
    in list: ArraySlice<UInt8>
  ) -> (type: UInt8, value: ArraySlice<UInt8>, after: ArraySlice<UInt8>)? {
    let head = Array(list.prefix(3))
    guard head.count == 3 else { return nil }
    let length = Int(head[1]) << 8 | Int(head[2])
    let rest = list.dropFirst(3)
    guard rest.count >= length else { return nil }
    return (head[0], rest.prefix(length), rest.dropFirst(length))
  }
}
