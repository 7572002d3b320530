/// A value that is made and used on one loop only, while other threads hold this box.
// @unchecked: only the loop accesses the value; other threads only hold the box.
public final class LoopConfined<Value>: @unchecked Sendable {
  public let loop: EventLoop
  private var value: Value?

  /// `make` runs on the loop, as its first work if the loop has not started yet.
  public init(on loop: EventLoop, make: @escaping @Sendable (EventLoop) -> Value) {
    self.loop = loop
    loop.post { self.value = make(loop) }
  }

  /// Runs a block with the value, on the loop, in the order of calls.
  public func run(_ body: @escaping @Sendable (Value) -> Void) {
    loop.post { if let value = self.value { body(value) } }
  }

  /// Gives the value up, on the loop.
  public func release() { loop.post { self.value = nil } }
}
