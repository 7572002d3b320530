/// Something that happens once on its loop, some time from now, unless its owner cancels it: the end of a delay, a grace
/// or a limit. The loop keeps it until then, so an owner that goes cancels it.
///
/// A target whose deadline moves with each event sets its own (`EventTarget.setDeadline`).
public final class OneShotTimer: EventTarget {
  private var action: (() -> Void)?

  fileprivate init(_ loop: EventLoop, _ milliseconds: Int, _ action: @escaping () -> Void) {
    self.action = action
    super.init(loop: loop)
    setDeadline(in: milliseconds)
  }

  /// Nothing happens any more, also if it has happened already.
  public func cancel() {
    action = nil
    loop.forgetDeadline(of: self)
  }

  public override func deadlinePassed() {
    let action = action.take()
    cancel()
    action?()
  }
}

extension EventLoop {
  /// Calls `action` on this loop after so many milliseconds, unless the timer is cancelled. On the loop only.
  public func after(_ milliseconds: Int, _ action: @escaping () -> Void) -> OneShotTimer {
    OneShotTimer(self, milliseconds, action)
  }
}
