import Observability
import Traffic

/// What one zone of the configuration that serves has decided.
struct LimitZoneCounts {
  let name: String
  /// The zone is one of `limit_req_zone`.
  let hasRate: Bool
  let counts: VerdictCounts

  /// All of them, in the order of their names.
  static func all(_ snapshot: MetricsSnapshot) -> [Self] {
    let verdicts = snapshot.shared[ZoneVerdicts.self]
    return snapshot.generation.http[LimitZones.self].all.map { zone in
      Self(
        name: zone.settings.name, hasRate: zone.rate != nil,
        counts: verdicts.counts(of: zone.settings, hasRate: zone.rate != nil))
    }
  }

  /// Fewer refusals than these are what a limit is for.
  private static let least = 20
  /// Percent.
  private static let leastShare = 10

  /// The zones that refuse a share of requests that somebody should look at: the key may be that of many clients at once.
  /// `limit`: the directive.
  static func problems(
    _ shared: SharedState, _ generation: Generation, _ limit: String, hasRate: Bool
  ) -> [StatusProblem] {
    let verdicts = shared[ZoneVerdicts.self]
    return generation.http[LimitZones.self].all.filter { ($0.rate != nil) == hasRate }.compactMap { zone in
      guard let found = verdicts.counts(of: zone.settings, hasRate: hasRate).refusals, found.refused >= least,
        found.share >= leastShare
      else { return nil }
      let most = found.name.map { ", at least \(found.named) of them from \($0)" } ?? ""
      return StatusProblem(
        .refusals, .warning,
        "\(limit) zone \"\(zone.settings.name)\", which counts by \(zone.settings.spelling), has refused "
          + "\(found.words("requests")) of the last 10 minutes\(most)")
    }
  }

  /// Writes a family with a series for each zone and verdict; without zones, nothing.
  static func measure(
    _ snapshot: MetricsSnapshot, hasRate: Bool, _ family: String, _ help: String, _ page: inout MetricsWriter
  ) {
    let zones = all(snapshot).filter { $0.hasRate == hasRate }
    if zones.isEmpty { return }
    page[.clients].family(family, .counter, help)
    for zone in zones {
      for verdict in LimitVerdict.all(hasRate: hasRate) {
        page[.clients].sample(family, ["zone": zone.name, "result": verdict.label], zone.counts[verdict])
      }
    }
  }
}
