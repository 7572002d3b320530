package import Bytes

/// Reads a variable of a feature for an exchange.
package struct ExchangeReader: VariableReader {
  /// Appends the value for an exchange; nothing if there is none.
  package let append: @Sendable (Exchange, inout ByteBuffer) -> Void
}

extension FeatureVariable {
  /// `saysClient`: nil for what the name says, which is true of `ssl_…`.
  package init(
    _ name: String, isOursAlone: Bool = false, isSettable: Bool = false, saysClient: Bool? = nil,
    isClientsWish: Bool = false, of kinds: Set<TrafficKind> = [.http],
    append: @escaping @Sendable (Exchange, inout ByteBuffer) -> Void
  ) {
    self.init(
      name, isOursAlone: isOursAlone, isSettable: isSettable, saysClient: saysClient, isClientsWish: isClientsWish,
      of: kinds, reader: ExchangeReader(append: append))
  }

  /// How a request reads it. Asked when a template is compiled, so that no request casts.
  package var exchangeReader: ExchangeReader { reader as? ExchangeReader ?? ExchangeReader { _, _ in } }
}
