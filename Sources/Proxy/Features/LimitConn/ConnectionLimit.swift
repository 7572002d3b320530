import Observability

/// `limit_conn`: a step of the preaccess phase. It counts exchanges in progress, until they end.
final class ConnectionLimit: PhaseStep {
  private struct Line {
    let zone: ConnectionZone
    let key: CompiledTemplate
    let name: String
    let spelling: String
    let count: Int
  }

  private let lines: [Line]
  private let response: LimitResponseSettings

  init(_ settings: LimitConn, _ zones: LimitZones) {
    lines = settings.lines.map {
      Line(
        zone: zones.connectionZone($0.zone), key: $0.zone.key.compiled, name: $0.zone.name,
        spelling: $0.zone.spelling, count: $0.count)
    }
    response = settings.response
  }

  override var words: String { lines.map { "limit_conn \($0.name) \($0.count)" }.joined(separator: ", ") }

  override func run(_ exchange: Exchange) -> StepOutcome {
    if exchange.account.states.known(ConnectionLimitState.self) != nil { return .next }
    for line in lines {
      let key = line.key.bytes(exchange)
      guard LimitKey.counts(key, upTo: LimitKey.connectionBytes, line.spelling, exchange) else { continue }
      switch line.zone.take(key, limit: line.count) {
      case .counted:
        exchange.use(ConnectionLimitState.self).hold(key, in: line.zone)
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
    exchange.use(ConnectionLimitState.self).refuse(as: response.isDryRun ? .rejectedDryRun : .rejected)
    return response.isDryRun ? .next : response.refusal(of: exchange)
  }
}

/// What `limit_conn` decided on one request, and the counts that it holds for it. Once it has decided, an internal redirect
/// or a subrequest doesn't count again.
final class ConnectionLimitState: FeatureState {
  private(set) var verdict = LimitVerdict.passed
  private var held: [(zone: ConnectionZone, key: [UInt8])] = []

  /// Keeps a count until the client has the response.
  func hold(_ key: [UInt8], in zone: ConnectionZone) {
    verdict = .passed
    held.append((zone, key))
  }

  /// Gives all counts back, because the request goes no further.
  func refuse(as verdict: LimitVerdict) {
    self.verdict = verdict
    release()
  }

  override func inherit(_ main: FeatureState) {
    if let main = main as? ConnectionLimitState { verdict = main.verdict }
  }

  override func end(_ stream: ClientStream) {
    if held.isEmpty { return }
    stream.hold(HeldCounts(held))
    held.removeAll()
  }

  override func reset() { release() }

  private func release() {
    for (zone, key) in held { zone.release(key) }
    held.removeAll()
  }
}

/// The counts of `limit_conn` that outlive their exchange: the client has not taken the whole response yet. They are given
/// back with this object.
private final class HeldCounts {
  private let counts: [(zone: ConnectionZone, key: [UInt8])]

  init(_ counts: [(zone: ConnectionZone, key: [UInt8])]) { self.counts = counts }

  deinit { for (zone, key) in counts { zone.release(key) } }
}
