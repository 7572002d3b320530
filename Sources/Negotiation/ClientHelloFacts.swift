/// What a ClientHello says that a proxy which doesn't end the TLS may decide by. Nothing of it is verified.
public struct ClientHelloFacts: Sendable, Equatable {
  /// SNI (RFC 6066 §3), in lower case, without a trailing dot; empty without SNI.
  public var serverName: [UInt8]
  /// ALPN (RFC 7301 §3.1), in the client's order; each has 1 to 255 bytes of any value.
  public var protocols: [[UInt8]]
  /// The highest version of TLS that the client offers, as on the wire: 0x0304 is TLS 1.3.
  public var version: UInt16
}
