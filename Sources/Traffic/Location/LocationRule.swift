import Language
import Observability

/// Errors in locations, such as a path that can't match.
enum LocationRule {
  /// Warns of a path that no request has: a request's path begins with `/`, and the proxy compares it decoded.
  static func neverMatches(_ word: Word) -> Diagnostic? {
    if !word.text.hasPrefix("/") {
      let regex = word.text.contains("\\") || word.text.contains("^") || word.text.contains("$")
      return Diagnostic(
        .warning, at: word.location, "location \"\(word.text)\" matches no request: a path begins with \"/\"",
        hint: regex ? "a regular expression needs \"~\" before it" : "write \"/\(word.text)\"")
    }
    if word.text.contains("%") {
      return Diagnostic(
        .warning, at: word.location, "location \"\(word.text)\" matches no request: paths are compared decoded",
        hint: "write the character itself, and quote a blank")
    }
    return nil
  }

  /// Warns of a location without content, where nginx would serve a file.
  static func doesNothing(_ scope: Scope, _ features: FeatureDirectives, at place: SourceLocation) -> Diagnostic? {
    guard !features.hasContent(scope),
      !features.ofHTTPLocation.contains(where: { $0.refuses(scope) }),
      !scope.isInternal, scope.ownLocations.isEmpty
    else { return nil }
    return Diagnostic(
      .warning, at: place, "this location responds to every request with 404",
      hint: "it has no proxy_pass, no return and no root")
  }

  /// Checks that every `@name` that features lead to is a location of the server.
  static func namedTargets(of root: LocationSettings) -> [Diagnostic] {
    var names: Set<String> = []
    for case .named(let name) in root.locations.map(\.match) { names.insert(name) }
    var found: [Diagnostic] = []
    func require(_ name: String, _ act: Wording, at place: SourceLocation) {
      guard !names.contains(name) else { return }
      found.append(
        Diagnostic(
          .error, at: place, "\(act) \"@\(name)\", which is not a location of the server",
          hint: "location @\(name) { … }, in the server block at \(root.location)"))
    }
    root.visitNested { location in
      for (name, act, place) in location.features.flatMap(\.namedTargets) { require(name, act, at: place) }
    }
    return found
  }
}
