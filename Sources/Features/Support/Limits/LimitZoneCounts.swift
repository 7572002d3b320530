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
