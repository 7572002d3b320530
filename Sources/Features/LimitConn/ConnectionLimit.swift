import Forward
import Observability
import Traffic

/// `limit_conn`: a step of the preaccess phase. It counts requests and sessions in progress, until they end.
final class ConnectionLimit: SharedStep {
  private struct Line {
    let zone: ConnectionZone
    let key: CompiledTemplate
    let name: String
    let spelling: String
    let count: Int
    /// nil: without a store.
    let shared: (holds: StoreHolds, failing: StoreUse.Failing)?
  }

  private let lines: [Line]
  private let response: LimitResponseSettings
  /// Whether a zone has a store.
  private let isShared: Bool

  init(_ settings: LimitConn, _ zones: ConnectionZones, _ stores: LiveStores) {
    lines = settings.lines.map {
      Line(
        zone: zones.zone($0.zone), key: $0.zone.key.compiled, name: $0.zone.name,
        spelling: $0.zone.spelling, count: $0.count,
        shared: $0.zone.store.flatMap { use in stores[use].map { ($0.holds, use.failing) } })
    }
    response = settings.response
    isShared = settings.lines.contains { $0.zone.store != nil }
    for line in lines { line.shared?.holds.use() }
  }

  override var words: String { lines.map { "limit_conn \($0.name) \($0.count)" }.joined(separator: ", ") }

  override func judge(_ transaction: Transaction) -> RuleOutcome {
    if transaction.states.known(ConnectionLimitState.self) != nil { return .next }
    return go(on: 0, transaction)
  }

  override func rehearse(judging transaction: Transaction, _ trace: ExplainTrace) -> RuleOutcome {
    guard isShared else { return judge(transaction) }
    trace.asks("a shared store how many are in progress; taken as few enough")
    return .next
  }

  /// Judges by the lines from this one on.
  private func go(on first: Int, _ transaction: Transaction) -> RuleOutcome {
    for (index, line) in lines.enumerated().dropFirst(first) {
      let key = line.key.bytes(transaction)
      guard LimitKey.counts(key, upTo: LimitKey.connectionBytes, line.spelling, transaction) else { continue }
      if let (holds, failing) = line.shared {
        if holds.mayAsk {
          ask(holds, StoreKey.of("conn", line.name, key), line, next: index + 1, failing, transaction)
          return .wait
        }
        switch failing {
        case .open: continue
        case .closed: return refuse(transaction, line, for: ": no answer of the shared store")
        case .local: break
        }
      }
      return goLocally(on: index, transaction)
    }
    return .next
  }

  private func ask(
    _ holds: StoreHolds, _ key: [UInt8], _ line: Line, next index: Int, _ failing: StoreUse.Failing,
    _ transaction: Transaction
  ) {
    let serial = transaction.serial
    holds.take(key, limit: line.count) { [self] answer in
      guard serial == transaction.serial else {
        // Nobody is left whom the count stands for.
        if answer == .counted { holds.release(key) }
        return
      }
      switch (answer, failing) {
      case (.counted, _):
        line.zone.verdicts.count(.passed)
        transaction.use(ConnectionLimitState.self).hold(key, in: holds)
        transaction.resume(after: go(on: index, transaction))
      case (.refused, _): transaction.resume(after: refuse(transaction, line))
      case (.unanswered, .closed):
        transaction.resume(after: refuse(transaction, line, for: ": no answer of the shared store"))
      case (.unanswered, .open): transaction.resume(after: go(on: index, transaction))
      // The store is down by now, so that the zone of this process judges.
      case (.unanswered, .local): transaction.resume(after: goLocally(on: index - 1, transaction))
      }
    }
    transaction.noticeLostClient()
  }

  /// Judges by one line's zone in this process, and then by the lines after it.
  private func goLocally(on index: Int, _ transaction: Transaction) -> RuleOutcome {
    guard lines.indices.contains(index) else { return .next }
    let line = lines[index], key = lines[index].key.bytes(transaction)
    switch line.zone.take(key, limit: line.count) {
    case .counted:
      line.zone.verdicts.count(.passed)
      transaction.use(ConnectionLimitState.self).hold(key, in: line.zone)
      return go(on: index + 1, transaction)
    case .refused: return refuse(transaction, line)
    case .full:
      transaction.log(.alert, "could not allocate node in limit_conn_zone \"\(line.name)\"")
      return refuse(transaction, by: line)
    }
  }

  private func refuse(_ transaction: Transaction, _ line: Line, for reason: String = "") -> RuleOutcome {
    transaction.log(
      response.level,
      "limiting connections\(response.isDryRun ? ", dry run," : "") by zone \"\(line.name)\"\(reason)")
    return refuse(transaction, by: line)
  }

  private func refuse(_ transaction: Transaction, by line: Line) -> RuleOutcome {
    let verdict: LimitVerdict = response.isDryRun ? .rejectedDryRun : .rejected
    line.zone.verdicts.count(verdict, of: transaction)
    transaction.use(ConnectionLimitState.self).refuse(as: verdict)
    return response.isDryRun ? .next : .refused(.limit(status: response.status))
  }
}

/// What `limit_conn` decided on one request, and the counts that it holds for it. Once it has decided, an internal redirect
/// or a subrequest doesn't count again.
final class ConnectionLimitState: FeatureState {
  private(set) var verdict = LimitVerdict.passed
  private var held: [HeldCount] = []

  /// Keeps a count until the client has the response.
  func hold(_ key: [UInt8], in zone: ConnectionZone) { hold(.zone(zone, key)) }
  func hold(_ key: [UInt8], in store: StoreHolds) { hold(.store(store, key)) }

  private func hold(_ count: HeldCount) {
    verdict = .passed
    held.append(count)
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
    for count in held { count.release() }
    held.removeAll()
  }
}

/// One count of one exchange.
private enum HeldCount {
  case zone(ConnectionZone, [UInt8])
  case store(StoreHolds, [UInt8])

  func release() {
    switch self {
    case .zone(let zone, let key): zone.release(key)
    case .store(let store, let key): store.release(key)
    }
  }
}

/// The counts of `limit_conn` that outlive their exchange: the client has not taken the whole response yet. They are given
/// back with this object.
private final class HeldCounts {
  private let counts: [HeldCount]

  init(_ counts: [HeldCount]) { self.counts = counts }

  deinit { for count in counts { count.release() } }
}
