/// `charset` and `charset_types`.
public struct CharsetSettings: Sendable {
  /// An empty value adds nothing.
  public var name: Template
  /// The types that get it, in lower case; nil: all (`charset_types *`).
  public var types: Set<[UInt8]>? = Set(
    [
      "text/html", "text/xml", "text/plain", "text/vnd.wap.wml", "application/javascript", "application/rss+xml",
    ].map { Array($0.utf8) })

  public init(name: Template) { self.name = name }
}
