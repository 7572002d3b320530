extension SharedState {
  /// What features tell of the process.
  package func problems(_ generation: Generation, at now: Int64) -> [StatusProblem] {
    features.all.flatMap { $0.problems(self, generation, at: now) } + certificateRefusals.problems()
  }

  /// The groups of which health checks have found a server down, for `health`. `isFatal`: they have found none up.
  package func downGroups(_ generation: Generation) -> [(words: String, isFatal: Bool)] {
    let isUp = features.all.reduce(into: [:]) { $0.merge($1.serversUp(generation)) { $0 && $1 } }
    let groups = Dictionary(grouping: isUp, by: \.key.upstream).sorted { $0.key < $1.key }
    return groups.compactMap { name, servers in
      let up = servers.count(where: \.value)
      if up == servers.count { return nil }
      return ("\(up) of \(servers.count) servers of upstream \(name) are up, by their health checks", up == 0)
    }
  }

  /// Clients that are refused at a rate that somebody should look at, for `health`.
  package func refusals(_ generation: Generation, at now: Int64) -> [String] {
    problems(generation, at: now).filter { $0.topic == .refusals }.map(\.text)
  }

  /// The certificates that the process could not get or renew by itself, for `health`. `isServing`: there is one that has
  /// not ended.
  package func troubledRenewals(_ generation: Generation, at now: Int64) -> [(words: String, isServing: Bool)] {
    problems(generation, at: now).filter { $0.topic == .renewals }.map { ($0.text, $0.severity == .warning) }
  }
}
