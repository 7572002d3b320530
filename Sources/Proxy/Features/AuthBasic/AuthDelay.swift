import Language
import Observability

/// auth_delay: a 401 of the access phase waits, so that passwords can't be tried in quick succession.
struct AuthDelay: LocationFeature {
  private let milliseconds: Int

  static let chapter = Chapter.rewrite
  private static let name = "auth_delay"

  static let directives: [DirectiveEntry] = [
    .value(
      name, .everyHTTP, .milliseconds, "0s", "How long a response with status 401 waits.",
      example: "auth_delay 1s;")
  ]

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> AuthDelay? {
    level.scope.milliseconds(name).flatMap { $0 > 0 ? AuthDelay(milliseconds: $0) : nil }
  }

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    parts.objects.append(DelayedDenial(milliseconds: milliseconds))
  }
}

/// `auth_delay` of a location.
final class DelayedDenial {
  private let milliseconds: Int

  init(milliseconds: Int) { self.milliseconds = milliseconds }

  /// Returns whether a 401 of the access phase waits here; the exchange then responds with it later.
  static func begins(_ failure: ErrorResponse, of exchange: Exchange) -> Bool {
    guard let delay = exchange.location.object(DelayedDenial.self) else { return false }
    exchange.log(.info, "delaying unauthorized request")
    exchange.wait(milliseconds: delay.milliseconds) { $0.fail(failure) }
    return true
  }
}
