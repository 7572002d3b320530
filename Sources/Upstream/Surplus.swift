import Transport

/// The deadline after which a group closes its surplus of idle sessions.
final class Surplus: EventTarget {
  /// Milliseconds.
  static let time = 1000

  private weak var group: UpstreamGroup?

  init(_ group: UpstreamGroup) {
    self.group = group
    super.init(loop: group.loop)
    setDeadline(in: Self.time)
  }

  override func deadlinePassed() {
    if group?.closeSurplus(now: loop.now) == true { setDeadline(in: Self.time) } else { stop() }
  }

  func stop() { loop.forgetDeadline(of: self) }
}
