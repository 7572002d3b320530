import Bytes
import Forward
import Language
import Observability
import Traffic

/// limit_req (nginx: ngx_http_limit_req_module): how many requests of one key pass in a second.
///
/// The folder is the whole feature: the directives and what they set here, what happens to a request in `RequestLimit`, and
/// the states of a zone in `RequestStates`.
struct LimitReq: FeatureSettings, LocationFeature, APIFeature {
  /// One line. `rate` is in thousandths of a request per second, `burst` and `delay` are in thousandths of a request.
  struct Line: Sendable, Hashable {
    var zone: LimitZoneSettings
    var rate: Int
    var burst: Int
    /// Requests above the rate that are not delayed; `nodelay` has the largest number.
    var delay: Int
  }

  var lines: [Line] = []
  var response = LimitResponseSettings()

  // MARK: Directives

  static let chapter = Chapter.limits

  static var apiObjects: [any APIObjects] {
    let absent = APIFault(status: 404, code: "LimitReqNotFound", text: "limit_req not found")
    return [LimitObjects(name: "limit_reqs", hasRate: true, absent: absent)]
  }

  private static let name = "limit_req"
  private static let levels = DirectiveContexts.everyHTTP

  private static let zone = DirectiveEntry.local(
    "limit_req_zone", .http,
    .words(3...5, "KEY zone=NAME:SIZE rate=NUMBERr/s|NUMBERr/m [store=NAME [fail=open|closed|local]]"),
    "A zone for `limit_req`: the rate that each value of the key may have. All workers share it, and a reload keeps the"
      + " states of a zone with the same name, key and size. A megabyte holds about 5,000 states (nginx: 8,000); a full"
      + " zone forgets the one used least recently. `$ssl_client_spki` as the key limits each client identity. With"
      + " `store`, the zone is that of all machines with this `shared_store`; while it can't be asked, this process counts"
      + " (`fail=local`), or requests pass (`open`), or are refused (`closed`).",
    repeatable: true, example: "limit_req_zone $binary_remote_addr zone=z:10m rate=10r/s;", trust: .told)

  static let rows: [Row<LimitReq>] = [
    Row(zone),
    .lines(
      name, levels, .words(1...3, "zone=NAME [burst=NUMBER] [nodelay | delay=NUMBER]"),
      "Delays requests above the zone's rate, and refuses those above `burst`. A request with an empty key isn't limited.",
      example: "limit_req zone=r burst=20 nodelay;", trust: .told
    ) { $0.lines = lines($1, &$2) },
    .flag(
      "limit_req_dry_run", levels, \.response.isDryRun,
      "Counts and logs the requests that `limit_req` limits, and passes them.",
      example: "limit_req_dry_run on;"),
    .number(
      "limit_req_status", levels, 400...599, \.response.status, "The status of a request that `limit_req` refuses.",
      example: "limit_req_status 429;"),
    .choice(
      "limit_req_log_level", levels, LimitResponseSettings.levels, \.response.level,
      "The level of a refusal's line in the error log; a delay's line is one level less severe.",
      example: "limit_req_log_level warn;"),
  ]

  static let variables = [
    FeatureVariable(
      "limit_req_status",
      "What `limit_req` made of the request: `PASSED`, `DELAYED`, `REJECTED`, or one of the last two with `_DRY_RUN`."
    ) { exchange, output in
      if let verdict = exchange.states.known(RequestLimitState.self)?.verdict { output.append(verdict.name) }
    }
  ]

  static func begin(_ http: Scope, _ builder: inout SettingsBuilder) {
    for line in zone.lines(in: http) {
      LimitZone.add(line, hasRate: true, &builder)
      builder[LoggedMembers.self].add(name, "\(name)_status")
    }
  }

  var isInEffect: Bool { !lines.isEmpty }

  private static func lines(_ written: [Directive], _ builder: inout SettingsBuilder) -> [Line] {
    var lines: [Line] = []
    for line in written {
      guard let limit = Self.line(line, &builder) else { continue }
      if lines.contains(where: { $0.zone.name == limit.zone.name }) {
        builder.error(
          line.location, "\"limit_req\" directive is duplicate for zone \"\(limit.zone.name)\"", hint: "write it once")
        continue
      }
      lines.append(limit)
    }
    if let first = lines.lazy.compactMap(\.zone.store).first,
      let other = lines.first(where: { $0.zone.store.map { $0.store != first.store } ?? false })
    {
      builder.error(
        written.last?.location,
        "\"limit_req\" has zones of two stores, \"\(first.store)\" and \"\(other.zone.store?.store ?? "")\"",
        hint: "one store decides on one request")
    }
    return lines
  }

  private static func line(_ line: Directive, _ builder: inout SettingsBuilder) -> Line? {
    var zone: LimitZone?
    var burst = 0
    var delay = 0
    for word in line.arguments {
      let (name, value) = word.text.splitAtEquals
      switch (name, value) {
      case ("zone", let value?):
        guard let found = LimitZone.named(value, at: word, of: name, hasRate: true, &builder) else { return nil }
        zone = found
      case ("burst", let value?), ("delay", let value?):
        guard let amount = Quantity.thousandths(value[...]) else {
          builder.error(word.location, "invalid \(name) value \"\(word.text)\"", hint: "a whole number above 0")
          return nil
        }
        if name == "burst" { burst = amount } else { delay = amount }
      case ("nodelay", nil): delay = Int.max
      default:
        builder.refuse(word, hint: "zone=, burst=, nodelay and delay=")
        return nil
      }
    }
    guard let zone, let rate = zone.rate else {
      builder.error(line.location, "\"limit_req\" must have \"zone\" parameter", hint: "limit_req zone=NAME …;")
      return nil
    }
    return Line(zone: zone.settings, rate: rate, burst: burst, delay: delay)
  }

  // MARK: Effect

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    parts.steps.preaccess.append(RequestLimit(self, makers.shared[RequestZones.self], makers[LiveStores.self]))
  }

  var ways: LocationWays {
    response.ways(
      lines.map {
        "at most \(Self.rate($0.rate)) for each \($0.zone.key.asWritten) (\(Self.name) zone=\($0.zone.name))"
      })
  }

  static func measure(_ snapshot: MetricsSnapshot, _ page: inout MetricsWriter) {
    LimitZoneCounts.measure(
      snapshot, hasRate: true, "sallyport_limit_req_requests_total",
      "Requests that limit_req has judged, by zone and by what became of them there.", &page)
  }

  static func problems(_ shared: SharedState, _ generation: Generation, at now: Int64) -> [StatusProblem] {
    LimitZoneCounts.problems(shared, generation, name, hasRate: true)
  }

  static func compare(_ old: Self?, _ new: Self?, _ names: ComparedNames, _ found: inout TrustChanges) {
    let before = Dictionary((old?.lines ?? []).map { ($0.zone.name, $0) }, uniquingKeysWith: { first, _ in first })
    let after = Dictionary((new?.lines ?? []).map { ($0.zone.name, $0) }, uniquingKeysWith: { first, _ in first })
    for name in Set(before.keys).union(after.keys).sorted() {
      switch (before[name], after[name]) {
      case (_?, nil): found.opens("limit_req of zone \(name) is gone")
      case (nil, let line?):
        found.closes("limit_req of zone \(name) is new: \(rate(line.rate)) for each \(line.zone.key.text(names.new))")
      case (let one?, let other?):
        StoreUse.compare("the counts of limit_req of zone \(name)", one.zone.store, other.zone.store, &found)
        let name = "limit_req of zone \(name)"
        if other.rate != one.rate {
          let sentence = "\(name) allows \(rate(other.rate)) (was \(rate(one.rate)))"
          if other.rate > one.rate { found.opens(sentence) } else { found.closes(sentence) }
        }
        if other.burst > one.burst {
          found.opens("\(name) allows a burst of \(other.burst / 1000) (was \(one.burst / 1000))")
        }
        if other.burst < one.burst {
          found.closes("\(name) allows a burst of only \(other.burst / 1000) (was \(one.burst / 1000))")
        }
        if one.zone.key.text(names.old) != other.zone.key.text(names.new) {
          found.other("\(name) counts for each \(other.zone.key.text(names.new)) (was \(one.zone.key.text(names.old)))")
        }
      case (nil, nil): break
      }
    }
    LimitResponseSettings.compare(name, old?.response, new?.response, &found)
  }

  /// `rate`: in thousandths of a request per second.
  private static func rate(_ rate: Int) -> String {
    rate % 1000 == 0 ? "\(rate / 1000) requests per second" : "\(rate * 60 / 1000) requests per minute"
  }
}
