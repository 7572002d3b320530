import DNS
import Forward
import Language
import Observability
import Traffic
import Upstream

/// How names are resolved while requests are served (nginx: core module).
enum NameResolution: PassFeature {
  static let chapter = Chapter.resolver
  static let kinds: Set<TrafficKind> = [.http, .stream]

  /// A wrong line is an error also where no upstream needs it.
  static func judge(_ level: Level, _ builder: inout SettingsBuilder) {
    _ = NameResolutionSettings.read(level.scope, &builder)
  }

  static func readPass(_ draft: inout PassDraft, _ builder: inout SettingsBuilder) {
    draft.target.nameResolution = NameResolutionSettings.read(draft.scope, &builder)
  }

  static let directives = NameResolutionSettings.directives

  static func measure(_ snapshot: MetricsSnapshot, _ page: inout MetricsWriter) {
    let all = snapshot.shared[ResolverCounts.self].totals
    func family<Kind: CaseIterable & RawRepresentable<String>>(
      _ name: String, _ label: String, _ help: String, _ count: (DNSTotals, Kind) -> UInt64
    ) {
      page[.upstreams].family(name, .counter, help)
      for (resolver, totals) in all {
        for kind in Kind.allCases {
          page[.upstreams].sample(name, ["resolver": resolver, label: kind.rawValue], count(totals, kind))
        }
      }
    }
    family(
      "sallyport_resolver_requests_total", "kind", "Questions to the DNS servers of a resolver line, by their kind."
    ) { (totals, kind: DNSTotals.Request) in totals[kind] }
    family(
      "sallyport_resolver_responses_total", "result", "What came of questions to the DNS servers of a resolver line."
    ) { (totals, kind: DNSTotals.Response) in totals[kind] }
  }
}
