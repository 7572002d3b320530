import Observability

/// `auth_delay`: a 401 of the access phase that waits, so that passwords can't be tried in quick succession.
enum DelayedDenial {
  /// Returns whether the failure is one that waits; the exchange then responds with it later.
  static func begins(_ failure: ErrorResponse, in phase: Phase, of exchange: Exchange) -> Bool {
    let delay = exchange.location.settings.flow.denialDelay
    guard phase == .access, delay > 0 else { return false }
    exchange.log(.info, "delaying unauthorized request")
    exchange.wait(milliseconds: delay) { $0.fail(failure) }
    return true
  }
}
