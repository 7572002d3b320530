/// How a process that stops ends its connections while it serves new clients, because nobody else can accept them: systemd's
/// store keeps the listening sockets, and systemd starts the next process when this one has ended. A pure value.
///
/// In each round, the connections that are open are asked to end. When they have ended, the process accepts nobody for a
/// moment. If everybody who came meanwhile ends in that moment, the process ends. If not, as with a WebSocket or a long
/// download, it accepts again, and the next round begins: a client that holds its connection keeps no other client waiting
/// for longer than a pause.
struct StopRounds {
  /// Milliseconds: how long new clients may wait, in the queues of the sockets.
  static let pause = 700

  enum Action: Hashable {
    case none
    /// Accept nobody for `pause`, and ask those who are there to end.
    case pause
    /// Accept again, and wait for those who were asked.
    case serve
    /// Nobody is left: accept nobody any more.
    case end
  }

  private enum Phase { case serving, pausing, over }
  private var phase = Phase.serving

  /// Everybody who was asked to end has ended.
  mutating func presentEnded() -> Action {
    switch phase {
    case .serving:
      phase = .pausing
      return .pause
    case .pausing:
      phase = .over
      return .end
    case .over: return .none
    }
  }

  /// The time of a pause has passed.
  mutating func pauseIsOver() -> Action {
    guard phase == .pausing else { return .none }
    phase = .serving
    return .serve
  }
}
