/// What a location writes of an exchange that ends: a line, a span (nginx: the log phase). One object serves all exchanges
/// of its location.
///
/// The exchange still has all that it had: its handler, its variables and the states of features. It gets no new bytes.
open class LogStep {
  open func run(_ exchange: Exchange) {}
}
