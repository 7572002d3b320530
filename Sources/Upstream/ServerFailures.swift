import Observability

/// Decides which failures of a group's servers the error log gets: the first, then summaries, and the recovery. Pure:
/// the caller brings the time (milliseconds of one monotonic clock).
struct ServerFailures {
  /// Failures without a server, of the group as a whole, are in the last place.
  private var places: [(lines: RepeatedLines, beganAt: UInt64, failedAt: UInt64)]
  /// How many servers have failed and not answered since.
  private var troubled = 0
  var isEmpty: Bool { troubled == 0 }

  /// A server counts as recovered after this time without a failure, because a server may fail and respond by turns.
  private static let calm: UInt64 = 1000

  init(servers: Int) { places = Array(repeating: (RepeatedLines(), 0, 0), count: max(0, servers) + 1) }

  mutating func failed(_ server: Int?, _ text: String, now: UInt64) -> RepeatedLines.Choice {
    let index = server.flatMap { places.indices.dropLast().contains($0) ? $0 : nil } ?? places.count - 1
    if places[index].lines.isEmpty {
      places[index].beganAt = now
      if index < places.count - 1 { troubled += 1 }
    }
    places[index].failedAt = now
    return places[index].lines.choose(text, now: now)
  }

  /// The number and duration of a server's failures when the server responds again; nil if no line was withheld.
  mutating func answered(_ server: Int, now: UInt64) -> (failures: UInt64, milliseconds: UInt64)? {
    guard troubled > 0, places.indices.dropLast().contains(server), !places[server].lines.isEmpty,
      now &- places[server].failedAt >= Self.calm
    else { return nil }
    let place = places[server]
    places[server].lines.forget()
    places[places.count - 1].lines.forget()
    troubled -= 1
    return place.lines.withheld == 0 ? nil : (place.lines.count, now &- place.beganAt)
  }
}
