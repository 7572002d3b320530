import Forward
import Language
import Observability
import Traffic

/// auth_delay: a 401 of the access phase waits, so that passwords can't be tried in quick succession.
struct AuthDelay: FeatureSettings, LocationFeature {
  private var milliseconds = 0

  static let chapter = Chapter.rewrite

  static let rows: [Row<AuthDelay>] = [
    .milliseconds(
      "auth_delay", .everyHTTP, \.milliseconds, initial: "0s", "How long a response with status 401 waits.",
      example: "auth_delay 1s;")
  ]

  var isInEffect: Bool { milliseconds > 0 }

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    parts.denialResponder = DelayedDenial(milliseconds: milliseconds)
  }
}

/// `auth_delay` of a location.
private final class DelayedDenial: DenialResponder {
  private let milliseconds: Int

  init(milliseconds: Int) { self.milliseconds = milliseconds }

  override func takes(_ failure: ErrorResponse, of exchange: Exchange) -> Bool {
    guard failure.code == 401 else { return false }
    exchange.log(.info, "delaying unauthorized request")
    exchange.wait(milliseconds: milliseconds) { $0.fail(failure) }
    return true
  }
}
