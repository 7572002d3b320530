/// A length of time as people say it.
package enum DurationWords {
  private static let units: [(seconds: Int64, name: String)] = [
    (86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"),
  ]

  /// `8 days and 23 hours`, `5 minutes`, `42 seconds`: two units at most, rounded down.
  package static func of(seconds: Int64) -> String {
    let seconds = max(0, seconds)
    guard let first = units.firstIndex(where: { seconds >= $0.seconds }) else { return "0 seconds" }
    func some(_ count: Int64, _ name: String) -> String { "\(count) \(name)\(count == 1 ? "" : "s")" }
    let unit = units[first], whole = some(seconds / unit.seconds, unit.name)
    guard first + 1 < units.count else { return whole }
    let next = units[first + 1], rest = seconds % unit.seconds / next.seconds
    return rest == 0 ? whole : "\(whole) and \(some(rest, next.name))"
  }
}
