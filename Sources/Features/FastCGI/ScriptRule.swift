import Language
import Patterns
import Traffic

/// Finds out if clients may choose the file that a FastCGI server runs. PHP, as it comes, takes the longest part of a path that
/// is a file: a path to an uploaded picture, with `/x.php` behind it, runs what stands in the picture.
enum ScriptRule {
  private static let ofPath = ["$fastcgi_script_name", "$document_uri", "$uri", "$request_filename", "$request_uri"]

  /// `script`: the line that names the file.
  static func mayBeAnyFile(_ script: Directive, _ level: Level, _ features: FeatureDirectives) -> Bool {
    guard isOfPath(script.text(1)), !namesFiles(level.match) else { return false }
    return !scopes(level).contains { scope in
      features.ofHTTPLocation.contains { $0.requiredFiles(scope).contains(where: isOfPath) }
    }
  }

  private static func isOfPath(_ text: String) -> Bool {
    let text = text.replacing("{", with: "").replacing("}", with: "")
    return ofPath.contains { text.contains($0) }
  }

  /// The level, and for the block of an `if` the location around it.
  private static func scopes(_ level: Level) -> [Scope] {
    if case .conditional(let scope, _, let outer) = level { return [scope] + scopes(outer) }
    return [level.scope]
  }

  /// Whether the location is for certain files, as `= /index.php` and `~ ^/(index|status)\.php(/|$)` are.
  private static func namesFiles(_ match: LocationMatch) -> Bool {
    switch match {
    case .exact: return true
    case .prefix, .prefixNoRegex, .named: return false
    case .regex(let pattern, _):
      let text = pattern.pattern
      guard text.hasPrefix("^"), let end = text.ranges(of: "\\.php").first else { return false }
      let name = text[..<end.lowerBound].replacing("(?:", with: "(").replacing("\\.", with: "").replacing(
        "\\-", with: "")
      return !name.contains { ".*+?[{\\".contains($0) }
    }
  }
}
