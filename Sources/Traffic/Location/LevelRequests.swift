package import Language

// What becomes of the requests of a level, as far as its lines say it: for rules about what a configuration says.

extension Scope {
  /// Whether a line of the level itself names a content that is not files.
  package var hasContent: Bool { Features.contents(of: .http).contains { $0.line(in: self) != nil } }

  /// What lines respond to each of the level's requests, before its content; nil: they don't.
  package var fixedResponse: FixedResponse? { Features.ofHTTPLocation.lazy.compactMap { $0.fixedResponse(self) }.first }

  /// Whether the server of these levels has a subrequest to a path for which this holds.
  fileprivate func hasSubrequest(to isMeant: (String) -> Bool) -> Bool {
    if Features.ofHTTPLocation.contains(where: { $0.subrequestPaths(self).contains(where: isMeant) }) { return true }
    return directives.contains { line in
      guard let block = line.block, !block.isEmpty else { return false }
      return Scope(block, outer: self).hasSubrequest(to: isMeant)
    }
  }
}

extension Level {
  /// Whether no client gets a response of the level: it is internal, and subrequests go to its path.
  package var servesSubrequestsAlone: Bool {
    guard scope.isInternal, let server = server else { return false }
    let path = match.spelling
    switch match {
    case .exact: return server.hasSubrequest { $0 == path }
    case .prefix, .prefixNoRegex: return server.hasSubrequest { $0.hasPrefix(path) }
    case .regex, .named: return false
    }
  }

  /// The level of the server block; nil in `stream`.
  package var server: Scope? {
    switch self {
    case .server(let scope): scope
    case .streamServer: nil
    case .location(_, _, let outer), .conditional(_, _, let outer): outer.server
    }
  }
}
