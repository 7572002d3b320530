/// How much of a head is read, and which names are kept.
public struct HeadLimits: Sendable, Equatable {
  /// Bytes of one line, its end included: nginx's size of one of `large_client_header_buffers`.
  public var lineBytes: Int
  /// Bytes of the whole head, from its first line to the empty one.
  public var headBytes: Int
  /// Field lines in one head: nginx's `max_headers`.
  public var fields: Int
  /// nginx's `ignore_invalid_headers`: a name of other than letters, digits and hyphen is dropped from the model.
  public var ignoreInvalidNames: Bool
  /// nginx's `underscores_in_headers`: an underscore counts as valid.
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
