import Transport

extension Worker {
  /// Called once a second. `dueAt`: when the loop was to make the call.
  package func sample(dueAt: UInt64) {
    counters.lag.note(loop.now > dueAt ? loop.now - dueAt : 0)
    counters.noteConnections(budget.used, of: budget.limit)
    if let live { for part in live.parts.all { part.sample() } }
    countSessions()
  }

  /// Counts the bytes of the sessions of `stream` that last. Called once a second.
  private func countSessions() {
    guard streamSessions > 0 else { return }
    for session in sessions.values { session.tcp?.stream.countBytes() }
  }
}
