import Forward
import Language
import Observability
import Traffic

/// Warns of pages about the process that anybody may read: nothing keeps clients out, and the server is not only for its own
/// machine.
enum OpenPageRule {
  /// `what`: what the line serves.
  static func judge(_ line: Directive?, what: String, _ level: Level, _ builder: inout SettingsBuilder) {
    guard let line, !isGuarded(level.scope, builder.features.ofHTTPLocation), !isOfThisMachine(level.scope) else {
      return
    }
    builder.warning(
      line.location, "anybody may read \(what): nothing here keeps clients out",
      hint: "allow 127.0.0.1; deny all; or auth_basic, ssl_verify_client on, or a server that listens on 127.0.0.1")
  }

  /// `if` may refuse whom it wants.
  private static func isGuarded(_ scope: Scope, _ features: [any LocationDirectives.Type]) -> Bool {
    if scope.demandsCertificate || scope.isInternal { return true }
    if features.contains(where: { $0.admitsOnlySome(scope) }) { return true }
    if !features.contains(where: { $0.admitsEverybody(scope) }),
      features.contains(where: { $0.guardingLine(scope) != nil })
    {
      return true
    }
    return !scope.conditions.isEmpty
  }

  private static func isOfThisMachine(_ scope: Scope) -> Bool {
    let listens = scope.listenLines.map { $0.text(0).lowercased() }
    return !listens.isEmpty
      && listens.allSatisfy { text in ["unix:", "127.", "localhost", "[::1]"].contains { text.hasPrefix($0) } }
  }
}
