public import HTTP
public import Patterns

/// What `gzip_proxied` names: responses to requests that came through another proxy (Via) are compressed if one of these
/// holds.
public struct ProxiedCompression: OptionSet, Sendable, Hashable {
  public let rawValue: UInt16
  public init(rawValue: UInt16) { self.rawValue = rawValue }
  public static let expired = ProxiedCompression(rawValue: 1)
  public static let noCache = ProxiedCompression(rawValue: 2)
  public static let noStore = ProxiedCompression(rawValue: 4)
  public static let `private` = ProxiedCompression(rawValue: 8)
  public static let noLastModified = ProxiedCompression(rawValue: 16)
  public static let noETag = ProxiedCompression(rawValue: 32)
  public static let auth = ProxiedCompression(rawValue: 64)
  public static let any = ProxiedCompression(rawValue: 128)
}

/// `gzip on` and the directives beside it.
public struct CompressionSettings: Sendable {
  public var level = 1
  public var minLength: UInt64 = 20
  /// Lower-case.
  public var types: Set<[UInt8]> = [Array("text/html".utf8)]
  /// `gzip_types *`
  public var takesAnyType = false
  /// `gzip_http_version 1.0`
  public var takesHTTP10 = false
  /// Empty: `off`.
  public var proxied: ProxiedCompression = []
  /// `gzip_vary`
  public var sendsVary = false
  /// `gzip_disable`, by User-Agent.
  public var disabledAgents: [RegularExpression] = []
  /// `gzip_disable msie6`
  public var disablesOldExplorer = false
  public init() {}
}
