package import Bytes

/// Reads a variable of a feature. Each closure appends the value; nothing if there is none.
package enum TransactionReader: VariableReader {
  case ofRequest(@Sendable (Exchange, inout ByteBuffer) -> Void)
  case ofSession(@Sendable (StreamSession, inout ByteBuffer) -> Void)
  case ofBoth(@Sendable (Transaction, inout ByteBuffer) -> Void)
}

extension FeatureVariable {
  /// A variable of requests. `saysClient`: nil for what the name says, which is true of `ssl_…`.
  package init(
    _ name: String, _ help: String = "", isOursAlone: Bool = false, isSettable: Bool = false, saysClient: Bool? = nil,
    append: @escaping @Sendable (Exchange, inout ByteBuffer) -> Void
  ) {
    self.init(
      name, help, isOursAlone: isOursAlone, isSettable: isSettable, saysClient: saysClient,
      reader: TransactionReader.ofRequest(append))
  }

  /// A variable of sessions of `stream`.
  package init(
    ofSession name: String, _ help: String = "", saysClient: Bool? = nil, isClientsWish: Bool = false,
    append: @escaping @Sendable (StreamSession, inout ByteBuffer) -> Void
  ) {
    self.init(
      name, help, saysClient: saysClient, isClientsWish: isClientsWish, of: [.stream],
      reader: TransactionReader.ofSession(append))
  }

  /// A variable of requests and of sessions.
  package init(
    ofBoth name: String, _ help: String = "", isOursAlone: Bool = false,
    append: @escaping @Sendable (Transaction, inout ByteBuffer) -> Void
  ) {
    self.init(
      name, help, isOursAlone: isOursAlone, of: [.http, .stream], reader: TransactionReader.ofBoth(append))
  }

  /// How it is read. Asked when a template is compiled, so that no request casts.
  package var transactionReader: TransactionReader { reader as? TransactionReader ?? .ofBoth { _, _ in } }
}
