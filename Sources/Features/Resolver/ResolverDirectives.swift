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
    page[.upstreams].family(
      "sallyport_resolver_requests_total", .counter, "Questions to the DNS servers of a resolver line, by their kind.")
    for (name, totals) in all {
      for request in DNSTotals.Request.allCases {
        page[.upstreams].sample(
          "sallyport_resolver_requests_total", ["resolver": name, "kind": request.rawValue], totals[request])
      }
    }
    page[.upstreams].family(
      "sallyport_resolver_responses_total", .counter, "What came of questions to the DNS servers of a resolver line.")
    for (name, totals) in all {
      for response in DNSTotals.Response.allCases {
        page[.upstreams].sample(
          "sallyport_resolver_responses_total", ["resolver": name, "result": response.rawValue], totals[response])
      }
    }
  }
}
