package import Observability
import Patterns
package import Language

/// The kind of a level: the part of a server outside its locations, a location inside another level, or the block of an
/// `if` or a `limit_except`, which is a location that requests reach only by way of the one around it.
package indirect enum Level {
  case server(Scope)
  /// A server of `stream`, which has no locations.
  case streamServer(Scope)
  case location(Scope, LocationMatch, outer: Level)
  case conditional(Scope, Block, outer: Level)

  package enum Block: String {
    case `if` = "inside \"if\" statement"
    case limitExcept = "inside \"limit_except\" block"
  }

  package var scope: Scope {
    switch self {
    case .server(let scope), .streamServer(let scope), .location(let scope, _, _), .conditional(let scope, _, _): scope
    }
  }

  /// The same level with another view of its directives.
  package func mapping(_ view: (Scope) -> Scope) -> Level {
    switch self {
    case .server(let scope): .server(view(scope))
    case .streamServer(let scope): .streamServer(view(scope))
    case .location(let scope, let match, let outer): .location(view(scope), match, outer: outer)
    case .conditional(let scope, let block, let outer): .conditional(view(scope), block, outer: outer)
    }
  }

  package var match: LocationMatch {
    switch self {
    case .server, .streamServer: .prefix([])
    case .location(_, let match, _): match
    case .conditional(_, _, let outer): outer.match
    }
  }

  package var isOfStream: Bool { if case .streamServer = self { true } else { false } }

  package var isConditional: Bool { if case .conditional = self { true } else { false } }
}

extension SettingsBuilder {
  package mutating func location(_ level: Level, at place: SourceLocation) -> LocationSettings {
    let scope = level.scope
    let before = diagnostics.count
    let features = self.features.read(level, &self)
    // What a line with an error is meant to do, the location would do.
    let isWhole = !hasError(since: before)
    self.features.judge(level, &self)
    if case .location = level, isWhole, !features.contains(where: \.mayRespond),
      let diagnostic = LocationRule.doesNothing(scope, self.features, at: place)
    {
      diagnostics.append(diagnostic)
    }
    var limits = CoreHTTP.limits.read(scope, &self)
    ClientBody.read(scope, into: &limits, &self)
    return LocationSettings(
      match: level.match, locations: innerLocations(level), limits: limits,
      redirects: CoreHTTP.redirects.read(scope, &self), isInternal: scope.isInternal, location: place,
      features: features, bodyFiles: ClientBody.files(scope, &self))
  }

  private mutating func innerLocations(_ level: Level) -> [LocationSettings] {
    var seen: [String: SourceLocation] = [:]
    return level.scope.ownLocations.compactMap { directive in
      guard let spelling = LocationSpelling(directive), let match = match(spelling, in: level, directive) else {
        return nil
      }
      if let key = match.duplicateKey {
        if let first = seen[key] {
          error(directive.location, "duplicate location \"\(match.spelling)\"", hint: "the first is at \(first)")
          return nil
        }
        seen[key] = directive.location
      }
      let scope = Scope(directive.block ?? [], outer: level.scope)
      return location(.location(scope, match, outer: level), at: directive.location)
    }
  }

  private mutating func match(_ spelling: LocationSpelling, in level: Level, _ directive: Directive) -> LocationMatch? {
    let match: LocationMatch
    switch spelling {
    case .prefix(let word): match = .prefix(path(word))
    case .prefixNoRegex(let word): match = .prefixNoRegex(path(word))
    case .exact(let word): match = .exact(path(word))
    case .regex(let word, _, _):
      guard let pattern = variables.pattern(at: word) else { return nil }
      match = .regex(pattern, slots: variables.namedCaptures(of: pattern))
    case .named(let word): match = .named(word.text)
    case .invalid(let word):
      error(word.location, "invalid location modifier \"\(word.text)\"", hint: "one of =, ^~, ~ and ~*")
      return nil
    }
    guard let fault = Self.nestingFault(match, in: level) else { return match }
    error(directive.location, fault)
    return nil
  }

  private mutating func path(_ word: Word) -> [UInt8] {
    if let diagnostic = LocationRule.neverMatches(word) { diagnostics.append(diagnostic) }
    return Array(word.text.utf8)
  }

  private static func nestingFault(_ match: LocationMatch, in level: Level) -> String? {
    guard case .location(_, let outer, _) = level else { return nil }
    let inner = match.spelling
    switch (outer, match) {
    case (.exact, _): return "location \"\(inner)\" cannot be inside the exact location \"\(outer.spelling)\""
    case (.named, _): return "location \"\(inner)\" cannot be inside the named location \"\(outer.spelling)\""
    case (_, .named): return "named location \"\(inner)\" can be on the server level only"
    case (_, .regex): return nil
    default:
      guard inner.hasPrefix(outer.spelling) else {
        return "location \"\(inner)\" is outside location \"\(outer.spelling)\""
      }
      return nil
    }
  }
}

extension LocationMatch {
  /// The path, pattern or name as written, for messages and for the check of nesting.
  package var spelling: String {
    switch self {
    case .prefix(let path), .prefixNoRegex(let path), .exact(let path): String(decoding: path, as: UTF8.self)
    case .regex(let pattern, _): pattern.pattern
    case .named(let name): "@\(name)"
    }
  }

  /// The key by which two locations are duplicates; nil for regular expressions, which are tried in order.
  fileprivate var duplicateKey: String? {
    switch self {
    case .prefix, .prefixNoRegex: "prefix \(spelling)"
    case .exact: "exact \(spelling)"
    case .named: spelling
    case .regex: nil
    }
  }
}
