/// What a location writes of an exchange or a session that ends: a line, a span (nginx: the log phase). One object serves
/// all of its location.
///
/// Both still have all that they had: handler, variables and the states of features. They get no new bytes.
open class LogStep {
  public init() {}

  open func run(_ exchange: Exchange) {}
  open func run(_ session: StreamSession) {}
}
