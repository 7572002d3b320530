public import DNS
public import Transport

/// The name of a `server … resolve`: its addresses are those that DNS says, at that moment.
public struct FollowedName: Sendable, Hashable {
  public var name: DNSName
  /// Without `service`.
  public var port: UInt16
  /// `service=`: the name whose SRV records lead to the servers.
  public var service: DNSName?

  public init(name: DNSName, port: UInt16, service: DNSName?) {
    self.name = name
    self.port = port
    self.service = service
  }
}

/// One address that a followed name has.
public struct FollowedAddress: Sendable, Hashable {
  public var address: SocketAddress
  /// That of the SRV record; nil without one, and for 0.
  public var weight: Int?
  /// Whether an SRV record with another priority comes first.
  public var isSecond: Bool

  public init(address: SocketAddress, weight: Int? = nil, isSecond: Bool = false) {
    self.address = address
    self.weight = weight
    self.isSecond = isSecond
  }
}
