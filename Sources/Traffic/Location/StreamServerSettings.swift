public import Negotiation

/// What a server of `stream` does before its content. Times in milliseconds.
public struct StreamServerSettings: RowSettings, Sendable, Hashable {
  public var proxyHeaderTimeout = 30_000
  public var handshakeTimeout = 60_000
  /// 0: no limit (`connection_max_time`).
  public var lifetime = 0
  public var preread = PrereadSettings()
  /// How clients ask for TLS; nil: they begin with it (`starttls`).
  public var negotiation: NegotiatedProtocol?
  public init() {}

  /// The protocol in whose words clients ask for TLS; nil: they begin with it.
  package var asked: String? { negotiation?.rawValue }
}

/// `ssl_preread` and its limits.
public struct PrereadSettings: Sendable, Hashable {
  public var isOn = false
  /// Milliseconds.
  public var timeout = 30_000
  /// Bytes.
  public var bufferSize = 16 * 1024
  /// A ClientHello with keys of post-quantum groups has about 2 KiB, and no message of TLS so many.
  package static let mostBytes = 256 * 1024
  public init() {}
}
