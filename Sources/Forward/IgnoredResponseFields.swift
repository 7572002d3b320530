import Traffic

/// The fields of an upstream's response that sallyport doesn't act on (`proxy_ignore_headers`).
///
/// nginx names nine of them. sallyport has no cache, so it acts on none of Expires, Cache-Control, Set-Cookie, Vary and
/// X-Accel-Expires for itself, and these bits change nothing; nor does it convert character sets.
public struct IgnoredResponseFields: OptionSet, Sendable, Hashable {
  public let rawValue: UInt16
  public init(rawValue: UInt16) { self.rawValue = rawValue }

  public static let redirect = IgnoredResponseFields(rawValue: 1)
  public static let limitRate = IgnoredResponseFields(rawValue: 2)
  public static let buffering = IgnoredResponseFields(rawValue: 4)
  public static let charset = IgnoredResponseFields(rawValue: 8)
  public static let accelExpires = IgnoredResponseFields(rawValue: 16)
  public static let expires = IgnoredResponseFields(rawValue: 32)
  public static let cacheControl = IgnoredResponseFields(rawValue: 64)
  public static let setCookie = IgnoredResponseFields(rawValue: 128)
  public static let vary = IgnoredResponseFields(rawValue: 256)

  /// The fields by their names in lower case.
  package static let named: [String: IgnoredResponseFields] = [
    "x-accel-redirect": .redirect, "x-accel-limit-rate": .limitRate, "x-accel-buffering": .buffering,
    "x-accel-charset": .charset, "x-accel-expires": .accelExpires, "expires": .expires, "cache-control": .cacheControl,
    "set-cookie": .setCookie, "vary": .vary,
  ]
}
