extension SharedState {
  /// What features tell of the process.
  package func problems(_ generation: Generation, at now: Int64) -> [StatusProblem] {
    features.all.flatMap { $0.problems(self, generation, at: now) }
  }

  /// The certificates that the process could not get or renew by itself, for `health`. `isServing`: there is one that has
  /// not ended.
  package func troubledRenewals(_ generation: Generation, at now: Int64) -> [(words: String, isServing: Bool)] {
    problems(generation, at: now).filter { $0.topic == .renewals }.map { ($0.text, $0.severity == .warning) }
  }
}
