import HTTP
import Observability
import Traffic

/// The zones of a limit in the API (nginx Plus: `/9/http/limit_reqs`, `/9/http/limit_conns`), which shows and resets what
/// each has decided.
struct LimitObjects: APIObjects {
  let name: String
  var kind = TrafficKind.http
  /// Its zones have a rate, so a request that is let in may wait before.
  let hasRate: Bool
  /// No zone of the limit has the name that is asked for.
  let absent: APIFault

  private func all(_ exchange: Exchange) -> [(name: String, counts: VerdictCounts)] {
    let verdicts = exchange.worker.shared[ZoneVerdicts.self]
    return exchange.session.live.generation.http[LimitZones.self].all
      .filter { $0.kind == kind && ($0.rate != nil) == hasRate }
      .map { ($0.settings.name, verdicts.counts(of: $0.settings, hasRate: hasRate)) }
  }

  private func counts(_ object: String, _ exchange: Exchange) throws(APIFault) -> VerdictCounts {
    guard let found = all(exchange).first(where: { $0.name == object }) else { throw absent }
    return found.counts
  }

  func show(_ object: String?, _ exchange: Exchange, _ response: any APIResponse) throws(APIFault) {
    var json = JSONText()
    if let object {
      let counts = try counts(object, exchange)
      json.object { write(counts, &$0) }
    } else {
      json.object { json in
        for (name, counts) in all(exchange) { json.object(name) { write(counts, &$0) } }
      }
    }
    response.answer(200, json.text + "\n", exchange)
  }

  func change(
    _ object: String, _ body: [UInt8], _ exchange: Exchange, _ response: any APIResponse
  ) throws(APIFault) {
    guard exchange.head.method == .delete else { throw .method }
    try counts(object, exchange).reset()
    response.answer(204, "", exchange)
  }

  private func write(_ counts: VerdictCounts, _ json: inout JSONText) {
    json.member("passed", max(0, Int64(truncatingIfNeeded: counts[.passed])))
    if hasRate { json.member("delayed", max(0, Int64(truncatingIfNeeded: counts[.delayed]))) }
    json.member("rejected", max(0, Int64(truncatingIfNeeded: counts[.rejected])))
    if hasRate { json.member("delayed_dry_run", max(0, Int64(truncatingIfNeeded: counts[.delayedDryRun]))) }
    json.member("rejected_dry_run", max(0, Int64(truncatingIfNeeded: counts[.rejectedDryRun])))
  }
}
