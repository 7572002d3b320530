import Observability
import Transport

/// `limit_req`: a step of the preaccess phase, before `limit_conn`, as in nginx.
final class RequestLimit: PhaseStep {
  private struct Line {
    let zone: RequestZone
    let key: CompiledTemplate
    let name: String
    let spelling: String
    let rate: Int
    let burst: Int
    let delay: Int
  }

  private let lines: [Line]
  private let response: LimitResponseSettings

  init(_ settings: LimitReq, _ zones: LimitZones) {
    lines = settings.lines.map {
      Line(
        zone: zones.requestZone($0.zone), key: $0.zone.key.compiled, name: $0.zone.name,
        spelling: $0.zone.spelling,
        rate: $0.rate, burst: $0.burst, delay: $0.delay)
    }
    response = settings.response
  }

  override var words: String { lines.map { "limit_req zone=\($0.name)" }.joined(separator: ", ") }

  override func run(_ exchange: Exchange) -> StepOutcome {
    if exchange.account.states.known(RequestLimitState.self) != nil { return .next }
    let now = exchange.worker.loop.now
    var reserved: [(Line, RequestStates.Reservation)] = []
    var isCounted = false
    // The longest wait, and the line that decides it.
    var longest = (wait: 0, excess: 0, name: "")
    func consider(_ line: Line, _ excess: Int) {
      let wait = LeakyBucket.wait(excess: excess, free: line.delay, rate: line.rate)
      if wait > longest.wait { longest = (wait, excess, line.name) }
    }
    for (index, line) in lines.enumerated() {
      let key = line.key.bytes(exchange)
      guard LimitKey.counts(key, upTo: LimitKey.requestBytes, line.spelling, exchange) else { continue }
      let isLast = index == lines.count - 1
      switch line.zone.ask(key, rate: line.rate, burst: line.burst, now: now, isLast: isLast) {
      case .reserved(let reservation):
        reserved.append((line, reservation))
        isCounted = true
      case .counted(let excess):
        isCounted = true
        consider(line, excess)
      case .refused(let excess):
        exchange.log(
          response.level,
          "limiting requests\(response.isDryRun ? ", dry run" : ""), excess: \(Self.text(excess)) by zone \"\(line.name)\""
        )
        return refuse(exchange, reserved)
      case .full:
        exchange.log(.alert, "could not allocate node in limit_req zone \"\(line.name)\"")
        return refuse(exchange, reserved)
      }
    }
    guard isCounted else { return .next }
    for (line, reservation) in reserved.reversed() {
      consider(line, line.zone.settle(reservation, rate: line.rate, now: now))
    }
    guard longest.wait > 0 else {
      exchange.use(RequestLimitState.self).verdict = .passed
      return .next
    }
    return delay(exchange, longest.wait, excess: longest.excess, longest.name)
  }

  private func refuse(_ exchange: Exchange, _ reserved: [(Line, RequestStates.Reservation)]) -> StepOutcome {
    for (line, reservation) in reserved { line.zone.release(reservation) }
    exchange.use(RequestLimitState.self).verdict = response.isDryRun ? .rejectedDryRun : .rejected
    return response.isDryRun ? .next : response.refusal(of: exchange)
  }

  private func delay(_ exchange: Exchange, _ wait: Int, excess: Int, _ name: String) -> StepOutcome {
    // As in nginx, a delay is one level less severe than a refusal.
    let level = LogLevel(rawValue: response.level.rawValue - 1).map { max(.info, $0) } ?? .info
    exchange.log(
      level,
      "delaying request\(response.isDryRun ? ", dry run" : ""), excess: \(Self.text(excess)), by zone \"\(name)\"")
    exchange.use(RequestLimitState.self).verdict = response.isDryRun ? .delayedDryRun : .delayed
    if response.isDryRun { return .next }
    exchange.wait(milliseconds: wait) { $0.resume(.next) }
    // The client's end may have come with its request, and then no later event announces it.
    if exchange.stream?.hasClientLeft == true { exchange.clientDidLeave() }
    return .wait
  }

  /// `0.500`
  private static func text(_ excess: Int) -> String {
    let rest = String(excess % 1000)
    return "\(excess / 1000).\(String(repeating: "0", count: 3 - rest.utf8.count))\(rest)"
  }
}

/// What `limit_req` decided on one request. Once it has, an internal redirect or a subrequest doesn't count again.
final class RequestLimitState: FeatureState {
  var verdict = LimitVerdict.passed

  override func inherit(_ main: FeatureState) {
    if let main = main as? RequestLimitState { verdict = main.verdict }
  }
}
