import Observability

/// `limit_conn`: a step of the preaccess phase. It counts exchanges in progress, until they end.
final class ConnectionLimit: PhaseStep {
  private struct Line {
    let zone: ConnectionZone
    let key: LiveTemplate
    let name: String
    let spelling: String
    let count: Int
  }

  private let lines: [Line]
  private let response: LimitResponseSettings

  init(_ settings: ConnectionLimitSettings, _ zones: LimitZones) {
    lines = settings.lines.map {
      Line(
        zone: zones.connectionZone($0.zone), key: LiveTemplate($0.zone.key), name: $0.zone.name,
        spelling: $0.zone.spelling, count: $0.count)
    }
    response = settings.response
  }

  override var words: String { lines.map { "limit_conn \($0.name) \($0.count)" }.joined(separator: ", ") }

  override func run(_ exchange: Exchange) -> StepOutcome {
    let limits = exchange.account.limiting
    if limits.connections != nil { return .next }
    for line in lines {
      let key = line.key.bytes(exchange)
      guard LimitKey.counts(key, upTo: LimitKey.connectionBytes, line.spelling, exchange) else { continue }
      switch line.zone.take(key, limit: line.count) {
      case .counted:
        limits.judgeConnection(.passed)
        limits.hold(key, in: line.zone)
      case .refused:
        exchange.log(
          response.level,
          "limiting connections\(response.isDryRun ? ", dry run," : "") by zone \"\(line.name)\"")
        return refuse(exchange)
      case .full:
        exchange.log(.alert, "could not allocate node in limit_conn_zone \"\(line.name)\"")
        return refuse(exchange)
      }
    }
    return .next
  }

  private func refuse(_ exchange: Exchange) -> StepOutcome {
    let limits = exchange.account.limiting
    limits.releaseCounts()
    limits.judgeConnection(response.isDryRun ? .rejectedDryRun : .rejected)
    return response.isDryRun ? .next : response.refusal(of: exchange)
  }
}
