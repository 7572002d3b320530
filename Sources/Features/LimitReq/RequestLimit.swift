import Forward
import Observability
import Redis
import Traffic
import Transport

/// `limit_req`: a step of the preaccess phase, before `limit_conn`, as in nginx.
///
/// Zones with a store are asked first, all of them in one question; what the store allows has been counted there. The
/// others follow, and those whose store gave no answer with `fail=local`. A request that one of those refuses then counts in
/// the store although it goes no further.
final class RequestLimit: PhaseStep {
  private struct Line {
    let zone: RequestZone
    let key: CompiledTemplate
    let name: String
    let spelling: String
    let rate: Int
    let burst: Int
    let delay: Int
    /// nil: without a store.
    let failing: StoreUse.Failing?
    /// What is asked of a store for each request: its key there, and the words that are always the same.
    let shared: (key: StoreKey, words: [[UInt8]])
  }

  /// The longest wait of the limits that have decided, and the line that decides it.
  private struct Longest {
    var wait = 0
    var excess = 0
    /// The zone that decides the wait; nil: nobody waits.
    var slowest: Line?
    var isCounted = false

    mutating func consider(_ line: Line, _ excess: Int) {
      isCounted = true
      let wait = LeakyBucket.wait(excess: excess, free: line.delay, rate: line.rate)
      guard wait > self.wait else { return line.zone.verdicts.count(.passed) }
      nobodyWaits()
      (self.wait, self.excess, slowest) = (wait, excess, line)
    }

    /// The slowest zone has let the request pass as far as it goes: another one waits longer, or refuses.
    func nobodyWaits() { slowest?.zone.verdicts.count(.passed) }
  }

  private let lines: [Line]
  /// Those without a store.
  private let own: [Line]
  /// nil: no line has one.
  private let store: StoreClient?
  private let response: LimitResponseSettings

  init(_ settings: LimitReq, _ zones: RequestZones, _ stores: LiveStores) {
    lines = settings.lines.map {
      Line(
        zone: zones.zone($0.zone), key: $0.zone.key.compiled, name: $0.zone.name,
        spelling: $0.zone.spelling,
        rate: $0.rate, burst: $0.burst, delay: $0.delay, failing: $0.zone.store?.failing,
        shared: (StoreKey("rate", $0.zone.name), ["\($0.rate)", "\($0.burst)"].map { Array($0.utf8) }))
    }
    own = lines.filter { $0.failing == nil }
    store = settings.lines.lazy.compactMap { stores[$0.zone.store] }.first
    response = settings.response
  }

  override var words: String { lines.map { "limit_req zone=\($0.name)" }.joined(separator: ", ") }

  override func run(_ exchange: Exchange) -> StepOutcome {
    if exchange.states.known(RequestLimitState.self) != nil { return .next }
    if let store { return ask(store, exchange) }
    return judge(exchange, lines, Longest())
  }

  override func rehearse(_ exchange: Exchange, _ trace: ExplainTrace) -> StepOutcome {
    if trace.takesLimitsAsKept { return .next }
    if own.count == lines.count { return run(exchange) }
    trace.asks("the shared store whether the rates are kept; taken as kept")
    return judge(exchange, own, Longest())
  }

  // MARK: In the store

  private func ask(_ store: StoreClient, _ exchange: Exchange) -> StepOutcome {
    var (keys, arguments, asked): ([[UInt8]], [[UInt8]], [Line]) = ([], [], [])
    for line in lines where line.failing != nil {
      let key = line.key.bytes(exchange)
      guard LimitKey.counts(key, upTo: LimitKey.requestBytes, line.spelling, exchange) else { continue }
      keys.append(line.shared.key(key))
      arguments += line.shared.words
      asked.append(line)
    }
    if asked.isEmpty { return judge(exchange, own, Longest()) }
    if store.fault != nil { return withoutStore(exchange, asked) }
    let bursts = asked.map(\.burst)
    StoreWait.ask(store, .rates, keys, arguments, exchange) {
      RateAnswer($0, bursts: bursts)
    } _: { [self] exchange, answer in
      switch answer {
      case .failure: return withoutStore(exchange, asked)
      case .success(.refused(let index, let excess)): return refuse(exchange, asked[index], excess: excess)
      case .success(.allowed(let excesses)):
        var longest = Longest()
        for (line, excess) in zip(asked, excesses) { longest.consider(line, excess) }
        return judge(exchange, own, longest)
      }
    }
    return .wait
  }

  /// The store gave no answer: each of its lines says what counts.
  private func withoutStore(_ exchange: Exchange, _ asked: [Line]) -> StepOutcome {
    if let line = asked.first(where: { $0.failing == .closed }) {
      exchange.log(response.level, "limiting requests: no answer of the shared store for zone \"\(line.name)\"")
      return refuse(exchange, line, [])
    }
    return judge(exchange, lines.filter { $0.failing == nil || $0.failing == .local }, Longest())
  }

  // MARK: In this process

  private func judge(_ exchange: Exchange, _ lines: [Line], _ known: Longest) -> StepOutcome {
    let now = exchange.worker.loop.now
    var reserved: [(Line, RequestStates.Reservation)] = []
    var longest = known
    for (index, line) in lines.enumerated() {
      let key = line.key.bytes(exchange)
      guard LimitKey.counts(key, upTo: LimitKey.requestBytes, line.spelling, exchange) else { continue }
      let isLast = index == lines.count - 1
      switch line.zone.ask(key, rate: line.rate, burst: line.burst, now: now, isLast: isLast) {
      case .reserved(let reservation): reserved.append((line, reservation))
      case .counted(let excess): longest.consider(line, excess)
      case .refused(let excess):
        for (line, reservation) in reserved { line.zone.release(reservation) }
        longest.nobodyWaits()
        return refuse(exchange, line, excess: excess)
      case .full:
        exchange.log(.alert, "could not allocate node in limit_req zone \"\(line.name)\"")
        longest.nobodyWaits()
        return refuse(exchange, line, reserved)
      }
    }
    for (line, reservation) in reserved.reversed() {
      longest.consider(line, line.zone.settle(reservation, rate: line.rate, now: now))
    }
    guard longest.isCounted else { return .next }
    guard let slowest = longest.slowest else {
      exchange.use(RequestLimitState.self).verdict = .passed
      return .next
    }
    return delay(exchange, longest.wait, excess: longest.excess, slowest)
  }

  private func refuse(_ exchange: Exchange, _ line: Line, excess: Int) -> StepOutcome {
    exchange.log(
      response.level,
      "limiting requests\(response.isDryRun ? ", dry run" : ""), excess: \(Self.text(excess)) by zone \"\(line.name)\"")
    return refuse(exchange, line, [])
  }

  /// `line`: whose zone refuses.
  private func refuse(
    _ exchange: Exchange, _ line: Line, _ reserved: [(Line, RequestStates.Reservation)]
  ) -> StepOutcome {
    for (line, reservation) in reserved { line.zone.release(reservation) }
    let verdict: LimitVerdict = response.isDryRun ? .rejectedDryRun : .rejected
    line.zone.verdicts.count(verdict, of: exchange)
    exchange.use(RequestLimitState.self).verdict = verdict
    return response.isDryRun ? .next : StepOutcome(.refused(.limit(status: response.status)), of: exchange)
  }

  private func delay(_ exchange: Exchange, _ wait: Int, excess: Int, _ line: Line) -> StepOutcome {
    // As in nginx, a delay is one level less severe than a refusal.
    let level = LogLevel(rawValue: response.level.rawValue - 1).map { max(.info, $0) } ?? .info
    exchange.log(
      level,
      "delaying request\(response.isDryRun ? ", dry run" : ""), excess: \(Self.text(excess)), by zone \"\(line.name)\"")
    let verdict: LimitVerdict = response.isDryRun ? .delayedDryRun : .delayed
    line.zone.verdicts.count(verdict)
    exchange.use(RequestLimitState.self).verdict = verdict
    if response.isDryRun { return .next }
    exchange.wait(milliseconds: wait) { $0.resume(.next) }
    // The client's end may have come with its request, and then no later event announces it.
    if exchange.stream?.hasClientLeft == true { exchange.clientDidLeave() }
    return .wait
  }

  /// `0.500`. An excess is never negative; if one were, it would be none.
  private static func text(_ excess: Int) -> String {
    let excess = max(0, excess)
    let digits = String(excess % 1000 + 1000).dropFirst()
    return "\(excess / 1000).\(digits)"
  }
}

/// What `limit_req` decided on one request. Once it has, an internal redirect or a subrequest doesn't count again.
final class RequestLimitState: FeatureState {
  var verdict = LimitVerdict.passed

  override func inherit(_ main: FeatureState) {
    if let main = main as? RequestLimitState { verdict = main.verdict }
  }
}
