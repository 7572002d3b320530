/// Limits on the size of a head, and the rules for which field names the parser keeps.
public struct HeadLimits: Sendable, Equatable {
  /// The most bytes in one line, line end included: one buffer of nginx's `large_client_header_buffers`.
  public var lineBytes: Int
  /// The most bytes in the whole head, from its first line to the empty line.
  public var headBytes: Int
  /// The most field lines in one head: nginx's `max_headers`.
  public var fields: Int
  /// Whether to drop a field whose name has other characters than letters, digits and hyphen: `ignore_invalid_headers`.
  public var ignoreInvalidNames: Bool
  /// Whether an underscore counts as a valid character: nginx's `underscores_in_headers`.
  public var underscores: Bool

  public init(
    lineBytes: Int = 8192, headBytes: Int = 32768, fields: Int = 1000, ignoreInvalidNames: Bool = true,
    underscores: Bool = false
  ) {
    self.lineBytes = lineBytes
    self.headBytes = headBytes
    self.fields = fields
    self.ignoreInvalidNames = ignoreInvalidNames
    self.underscores = underscores
  }
}
