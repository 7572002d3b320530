import Observability
import Transport

/// `auth_delay`: a 401 of the access phase that waits, so that passwords can't be tried in quick succession.
final class DelayedDenial: EventTarget {
  private let exchange: Exchange
  private let serial: UInt64
  private let failure: ErrorResponse

  private init(_ exchange: Exchange, _ failure: ErrorResponse, _ milliseconds: Int) {
    self.exchange = exchange
    self.failure = failure
    serial = exchange.serial
    super.init(loop: exchange.worker.loop)
    setDeadline(in: milliseconds)
  }

  /// Returns whether the failure is one that waits; the exchange then responds with it later.
  static func begins(_ failure: ErrorResponse, in phase: Phase, of exchange: Exchange) -> Bool {
    let delay = exchange.location.settings.flow.denialDelay
    guard phase == .access, delay > 0 else { return false }
    exchange.log(.info, "delaying unauthorized request")
    // The loop retains it until the deadline.
    _ = DelayedDenial(exchange, failure, delay)
    return true
  }

  override func deadlinePassed() {
    loop.forgetDeadline(of: self)
    // The exchange object may already serve another request.
    if serial == exchange.serial { exchange.fail(failure) }
  }
}
