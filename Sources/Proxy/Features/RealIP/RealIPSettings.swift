public import Observability

/// `set_real_ip_from`, `real_ip_header` and `real_ip_recursive` in effect at one level (ngx_http_realip_module). A level
/// without a `set_real_ip_from` has none of it: then nobody's word about an address is taken.
public struct RealIPSettings: Sendable, Hashable {
  /// Where the client's address stands.
  public enum Source: Sendable, Hashable {
    /// The last line of X-Forwarded-For, and with `real_ip_recursive` also the lines before it.
    case forwardedFor
    /// The first line of this field; the name in lower case.
    case field([UInt8])
    /// The header of `listen … proxy_protocol`.
    case proxyProtocol
  }

  /// A name of `set_real_ip_from`, which is resolved at each start and reload.
  public struct Host: Sendable, Hashable {
    public var name: String
    public var location: SourceLocation
    public init(name: String, location: SourceLocation) {
      self.name = name
      self.location = location
    }
  }

  /// The addresses whose word is taken.
  public var trusted: [AccessRule.Source]
  public var hosts: [Host]
  public var source: Source
  /// Whether a trusted address in the list lets the next one to its left count.
  public var isRecursive: Bool

  public init(trusted: [AccessRule.Source], hosts: [Host], source: Source, isRecursive: Bool) {
    self.trusted = trusted
    self.hosts = hosts
    self.source = source
    self.isRecursive = isRecursive
  }
}
