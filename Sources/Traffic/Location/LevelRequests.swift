package import Language

// What becomes of the requests of a level, as far as its lines say it: for rules about what a configuration says.

extension FeatureDirectives {
  /// Whether a line of the level itself names a content that is not files.
  package func hasContent(_ scope: Scope) -> Bool {
    contents(of: .http).contains { $0.line(in: scope, of: self) != nil }
  }

  /// What lines respond to each of the level's requests, before its content; nil: they don't.
  package func fixedResponse(_ scope: Scope) -> FixedResponse? {
    ofHTTPLocation.lazy.compactMap { $0.fixedResponse(scope) }.first
  }

  /// Whether the server of these levels has a subrequest to a path for which this holds.
  private func hasSubrequest(_ scope: Scope, to isMeant: (String) -> Bool) -> Bool {
    if ofHTTPLocation.contains(where: { $0.subrequestPaths(scope).contains(where: isMeant) }) { return true }
    return scope.directives.contains { line in
      guard let block = line.block, !block.isEmpty else { return false }
      return hasSubrequest(Scope(block, outer: scope), to: isMeant)
    }
  }

  /// Whether no client gets a response of the level: it is internal, and subrequests go to its path.
  package func servesSubrequestsAlone(_ level: Level) -> Bool {
    guard level.scope.isInternal, let server = level.server else { return false }
    let path = level.match.spelling
    switch level.match {
    case .exact: return hasSubrequest(server) { $0 == path }
    case .prefix, .prefixNoRegex: return hasSubrequest(server) { $0.hasPrefix(path) }
    case .regex, .named: return false
    }
  }
}

extension Level {
  /// The level of the server block; nil in `stream`.
  package var server: Scope? {
    switch self {
    case .server(let scope): scope
    case .streamServer: nil
    case .location(_, _, let outer), .conditional(_, _, let outer): outer.server
    }
  }
}
